"""The table of GPU models, independent of the instance types that have them.

MIG profiles and the number of instances that fit on one GPU: NVIDIA, "MIG User Guide", supported profiles. Those that
add media engines (`+me`) or graphics are left out: a GPU is split into equal instances here. Compute capabilities:
NVIDIA, "CUDA GPU Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """One model of GPU."""

    label: str | None
    """Product name as the node label `nvidia.com/gpu.product` spells it; None where the cloud does not tell it.

    A node may carry a regional variant of it (A800 for A100): select nodes by pool, not by this.
    """
    memory_gib: int
    """Memory of one GPU as the cloud advertises it."""
    compute_capability: str | None
    """The capability that kernels must be compiled for, such as 8.0; None where the cloud does not say which GPU it
    is."""
    mig_profiles: Mapping[str, int] = field(default_factory=dict[str, int])
    """MIG profile -> instances of it that fit on one GPU; empty where the GPU cannot be split."""


T4 = GpuModel(label="Tesla-T4", memory_gib=16, compute_capability="7.5")
V100_16 = GpuModel(label="Tesla-V100-SXM2-16GB", memory_gib=16, compute_capability="7.0")
V100_32 = GpuModel(label="Tesla-V100-SXM2-32GB", memory_gib=32, compute_capability="7.0")
A10 = GpuModel(label="NVIDIA-A10", memory_gib=24, compute_capability="8.6")
A30 = GpuModel(
    label="NVIDIA-A30",
    memory_gib=24,
    compute_capability="8.0",
    mig_profiles={"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
)
A100_40 = GpuModel(
    label="NVIDIA-A100-SXM4-40GB",
    memory_gib=40,
    compute_capability="8.0",
    mig_profiles={"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
)
A100_80 = GpuModel(
    label="NVIDIA-A100-SXM4-80GB",
    memory_gib=80,
    compute_capability="8.0",
    mig_profiles={"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
)
L20 = GpuModel(label="NVIDIA-L20", memory_gib=48, compute_capability="8.9")
# The cloud names no model for gn8v; 96 GB of HBM3 at 4 TB/s, 900 GB/s of NVLink and 39.5 TFLOPS FP32 are the H20's.
H20 = GpuModel(
    label="NVIDIA-H20",
    memory_gib=96,
    compute_capability="9.0",
    mig_profiles={"1g.12gb": 7, "1g.24gb": 4, "2g.24gb": 3, "3g.48gb": 2, "4g.48gb": 1, "7g.96gb": 1},
)
# Of the ninth generation the cloud documents only architecture and memory, so MIG is refused there.
BLACKWELL_48 = GpuModel(label=None, memory_gib=48, compute_capability=None)
BLACKWELL_72 = GpuModel(label=None, memory_gib=72, compute_capability=None)
