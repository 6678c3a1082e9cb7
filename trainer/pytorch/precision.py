"""Number formats of a model's computations, and the memory layout of images."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from trainer.common.validation import SettingsError
from trainer.pod_modules.athanor_gpu_peaks import gpu_peak

if TYPE_CHECKING:
    from torch import Tensor, nn

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


@dataclass(frozen=True, kw_only=True)
class PrecisionConfig:
    """Kinds of numbers; parameters, optimizer state and the reduction of gradients are float32 in any case."""

    precision: Literal["fp32", "bf16_autocast", "bf16"] = "fp32"
    """`bf16_autocast` computes matrix products and convolutions in bfloat16, for replicas only. `bf16` computes
    everything in bfloat16 with copies of the float32 parameters (FSDP2's mixed precision)."""
    float32_matmul: Float32Matmul = "highest"
    """How exactly float32 numbers are multiplied, as `torch.set_float32_matmul_precision` names it. `high` and `medium`
    use TF32 on GPUs from Ampere on; on CPUs with AMX, `medium` uses bfloat16, in convolutions, too. Sums, parameters
    and results stay float32. Other hardware multiplies in float32. `highest` leaves torch as it is: float32 in matrix
    products, TF32 in convolutions on GPUs."""
    channels_last: bool = False
    """Keep the channels of a pixel next to each other: faster convolutions on GPUs with bf16."""

    def __post_init__(self) -> None:
        if self.float32_matmul != "highest" and self.precision != "fp32":
            limit = f"is for --precision fp32; with {self.precision} products are in bfloat16"
            raise ValueError(f"float32_matmul={self.float32_matmul}: {limit}. Fix: leave one of them out")

    def apply(self, device: torch.device, *, warns: bool) -> None:
        """Set up this process; see `float32_products.use`."""
        use(self.float32_matmul, device, warns=warns)

    def notes(self, device: torch.device, *, reads_images: bool) -> list[str]:
        """Say what a run leaves unused of a GPU's tensor cores, in the data sheet's figures, and how to use them."""
        if device.type != "cuda" or self != PrecisionConfig(channels_last=self.channels_last):
            return []
        name, fast = torch.cuda.get_device_name(device), has_tf32(device)
        peak = gpu_peak(name)
        if not fast or (peak is not None and peak.bf16 is None):
            return []
        # torch lets convolutions use TF32 by default, and matrix products not
        used = "TF32" if reads_images else "none"
        figures = ""
        if peak is not None:
            at_most = peak.tf32 if reads_images else peak.fp32
            figures = f", at most {at_most:g} of the {peak.bf16:g} TFLOP/s that {name} has in bfloat16"
        more = "" if reads_images else ", or --float32_matmul high to keep float32 and use TF32"
        fix = f"Fix: --precision bf16_autocast for replicas, bf16 for sharded models{more}"
        return [f"precision=fp32: uses {used} of the GPU's tensor cores{figures}. {fix}"]

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the course of the loss, as JSON values, without initial defaults."""
        if self == PrecisionConfig():
            return {}
        settings = dataclasses.asdict(self)
        if self.float32_matmul == "highest":
            # checkpoints from the time when there was no choice do not name it
            del settings["float32_matmul"]
        return settings

    def check(self, *, only_replicas: bool, reads_images: bool) -> None:
        """Refuse what the layout or the model does not allow.

        Args:
            only_replicas: Whether every rank has the whole model.
            reads_images: Whether inputs have channels.

        Raises:
            SettingsError: naming the option and the fix.
        """
        if self.precision == "bf16_autocast" and not only_replicas:
            limit = "is for replicas of the whole model"
            raise SettingsError(f"precision=bf16_autocast: {limit}. Fix: --precision bf16 for sharded ones")
        if self.channels_last and not reads_images:
            raise SettingsError("channels_last=True: the model reads no images. Fix: leave it out")

    @property
    def policy(self) -> MixedPrecisionPolicy:
        """FSDP2's policy."""
        if self.precision == "bf16":
            return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        return MixedPrecisionPolicy()

    def compute(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Return a module's result for a batch, in these number and memory formats."""
        if self.channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        in_bfloat16 = self.precision == "bf16_autocast"
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=in_bfloat16):
            return module(inputs)
