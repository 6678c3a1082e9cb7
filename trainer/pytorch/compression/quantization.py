"""8-bit models for CPUs. The only module that calls torch.ao.

torch.ao is deprecated in favour of torchao, whose quantised models are torch.export programs that need a compiler where
they are served; those of torch.ao are TorchScript with quantised kernels (docs/decisions/0020). The pinned torch has
it, and its warnings end here.
"""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

_X86 = "x86"
_CALIBRATION_BATCH = 64


def quantize_static(model: nn.Module, calibration: Tensor) -> nn.Module:
    """Return a copy whose weights and activations are int8; what has no such kernel stays float32.

    Args:
        model: In evaluation mode, on the CPU; its forward must not branch on values (torch.fx).
        calibration: Real inputs, float32 [N, …], which decide the range of each activation.
    """
    with _quantized_kernels() as engine:
        mapping = quantization.get_default_qconfig_mapping(engine)
        prepared = cast("Any", quantize_fx).prepare_fx(copy.deepcopy(model).eval(), mapping, (calibration[:2],))
        with torch.inference_mode():
            for begin in range(0, len(calibration), _CALIBRATION_BATCH):
                prepared(calibration[begin : begin + _CALIBRATION_BATCH])
        return cast("nn.Module", cast("Any", quantize_fx).convert_fx(prepared)).eval()


def quantize_dynamic(model: nn.Module) -> nn.Module:
    """Return a copy whose linear layers have int8 weights and find the range of their input in each call.

    Raises:
        ValueError: the model has no linear layer.
    """
    if not any(isinstance(layer, nn.Linear) for layer in model.modules()):
        raise ValueError("the model has no linear layer, and dynamic quantisation changes no other. Fix: use int8")
    with _quantized_kernels():
        quantized = cast("Any", quantization).quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
        return cast("nn.Module", quantized).eval()


@contextmanager
def _quantized_kernels() -> Generator[str]:
    """Choose the kernels for this machine's CPU, and yield their name."""
    backend = cast("Any", torch.backends.quantized)
    before = backend.engine
    backend.engine = _X86 if _X86 in backend.supported_engines else "qnnpack"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"torch\.ao\.quantization is deprecated")
            warnings.filterwarnings("ignore", message=r"Please use quant_min and quant_max")
            warnings.filterwarnings("ignore", message=r"torch\.quantize_per_tensor")
            yield backend.engine
    finally:
        backend.engine = before
