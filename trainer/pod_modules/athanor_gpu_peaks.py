"""What a GPU computes at most, by the name that its driver reports: the one table of such figures.

Dense figures of NVIDIA's data sheets at boost clock, in units of 10^12 floating-point operations per second. Where a
sheet gives figures with structured sparsity, they are halved. Sources: the data sheets of the T4, V100, A10, A30, A100,
L4, L20, L40S, H100, H200 and HGX B200; A800 and H800 are the A100 and the H100 with fewer links. H20: tensor cores as
NVIDIA gives them; for its FP32, which is printed as 44 and as 39.5, the latter: 78 multiprocessors x 128 multiply-adds
at 1.98 GHz.

Names of drivers: those that vLLM (0.11, `fused_moe/configs/*device_name=*.json`) writes as
`torch.cuda.get_device_name` returned them, with underscores for spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERA = 1e12


@dataclass(frozen=True)
class GpuPeak:
    """Floating-point operations per second, in units of 10^12; None where the GPU has no such cores."""

    fp32: float
    """Of the CUDA cores."""
    tf32: float | None
    """Of the tensor cores, for float32 operands of which 10 bits of the mantissa count."""
    bf16: float | None
    """Of the tensor cores, with sums in float32."""
    fp16: float | None = None
    """Of tensor cores that have no bfloat16; of others it is the same."""

    @property
    def flops(self) -> float:
        """Most floating-point operations per second with 16 bits or more.

        What utilisation is measured against, whatever a run computes in: in float32 most of an A100 is unused.
        """
        return (self.bf16 or self.fp16 or self.fp32) * _TERA


_T4 = GpuPeak(fp32=8.1, tf32=None, bf16=None, fp16=65)
_V100 = GpuPeak(fp32=15.7, tf32=None, bf16=None, fp16=125)
_A100 = GpuPeak(fp32=19.5, tf32=156, bf16=312)
_H100_SXM = GpuPeak(fp32=66.9, tf32=494.7, bf16=989.4)
_H100_PCIE = GpuPeak(fp32=51.2, tf32=378, bf16=756)

_PEAKS: Mapping[frozenset[str], GpuPeak] = {
    frozenset({"T4"}): _T4,
    frozenset({"V100", "SXM2"}): _V100,
    frozenset({"A10"}): GpuPeak(fp32=31.2, tf32=62.5, bf16=125),
    frozenset({"A30"}): GpuPeak(fp32=10.3, tf32=82, bf16=165),
    frozenset({"A100"}): _A100,
    frozenset({"A800"}): _A100,
    frozenset({"L4"}): GpuPeak(fp32=30.3, tf32=60, bf16=121),
    frozenset({"L20"}): GpuPeak(fp32=59.8, tf32=59.8, bf16=119.5),
    frozenset({"L40S"}): GpuPeak(fp32=91.6, tf32=183, bf16=362),
    frozenset({"H20"}): GpuPeak(fp32=39.5, tf32=74, bf16=148),
    frozenset({"H100", "HBM3"}): _H100_SXM,
    frozenset({"H100", "PCIE"}): _H100_PCIE,
    # after the card, for the driver calls the module H800 and nothing more
    frozenset({"H800", "PCIE"}): _H100_PCIE,
    frozenset({"H800"}): _H100_SXM,
    frozenset({"H200"}): _H100_SXM,
    frozenset({"B200"}): GpuPeak(fp32=75, tf32=1125, bf16=2250),
}
"""By the words that a device's name must have."""
_OTHER_PRODUCTS = {"MIG", "NVL", "GB200", "GH200"}
"""Words of names that mean fewer multiprocessors, or another clock, than the rest of the name says."""


def gpu_peak(device_name: str) -> GpuPeak | None:
    """Return what a GPU computes at most; None where the table does not know it.

    Args:
        device_name: As `torch.cuda.get_device_name` returns it, such as `NVIDIA A100-SXM4-80GB`.
    """
    words = set(re.split(r"[\s-]+", device_name.upper()))
    if words & _OTHER_PRODUCTS:
        return None
    return next((peak for name, peak in _PEAKS.items() if name <= words), None)
