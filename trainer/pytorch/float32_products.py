"""Precision of float32 matrix products: torch's switches, and the hardware that has faster ones."""

from __future__ import annotations

import logging
from typing import Any, Literal

import torch

logger = logging.getLogger(__name__)

Float32Matmul = Literal["highest", "high", "medium"]

_TF32_CAPABILITY = (8, 0)
"""Capability from which tensor cores take float32 operands as TF32 (NVIDIA, "CUDA Programming Guide")."""
_CPU_FEATURES = {"high": "amx_fp16", "medium": "amx_bf16"}
"""CPU features that oneDNN needs to multiply float32 numbers as TF32 or bfloat16. With avx512_bf16 alone it takes the
kernels of float32, whatever the switch says (oneDNN 3.13, seen in ONEDNN_VERBOSE)."""


def use(precision: Float32Matmul, device: torch.device, *, warns: bool) -> None:
    """Let float32 products of this process be as exact as `precision` says; to be called before the first kernel runs.

    Where the hardware multiplies float32 numbers in no other way, nothing changes.

    Args:
        precision: As torch names it; `highest` leaves torch as it is.
        device: Where the model is.
        warns: Whether to log that nothing changes.
    """
    if precision == "highest":
        return
    missing = _missing(precision, device)
    if missing is not None:
        if warns:
            logger.warning("float32_matmul=%s: %s; products stay in float32", precision, missing)
        return
    torch.set_float32_matmul_precision(precision)
    if device.type == "cpu":
        # torch's switch covers matrix products alone
        backend: Any = torch.backends.mkldnn  # whose `conv` torch sets up where types do not see it
        backend.conv.fp32_precision = "bf16" if precision == "medium" else "tf32"


def has_tf32(gpu: torch.device) -> bool:
    """Whether the tensor cores of a GPU take float32 operands, as TF32; those have bfloat16, too."""
    return torch.cuda.get_device_capability(gpu) >= _TF32_CAPABILITY


def _missing(precision: Literal["high", "medium"], device: torch.device) -> str | None:
    """Return the requirement that the device does not meet; None if it meets all."""
    if device.type == "cuda":
        if has_tf32(device):
            return None
        major, minor = torch.cuda.get_device_capability(device)
        return f"TF32 needs a GPU of compute capability 8.0 (Ampere), this one has {major}.{minor}"
    feature = _CPU_FEATURES[precision]
    return None if torch.cpu.get_capabilities().get(feature) else f"this CPU has no {feature}"
