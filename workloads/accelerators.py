"""GPU requests of a pod: whole GPUs, a share, a MIG instance, or GiB of memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.gpu.sharing import (
    GPU_CORE_RESOURCE,
    GPU_MEMORY_RESOURCE,
    GPU_RESOURCE,
    SHARED_GPU_RESOURCE,
    mig_resource,
)
from workloads.checks import check_range

_PROFILE = re.compile(r"[1-7]g\.[1-9][0-9]{0,2}gb")
_MAXIMUM_GPUS = 16


@checked("resources.gpus")
@dataclass(frozen=True, kw_only=True)
class WholeGpus:
    """GPUs that no other pod uses; `gpus=8` is short for it."""

    count: int

    def __post_init__(self) -> None:
        """Refuse more than any node has."""
        check_range("resources.gpus", self.count, 1, _MAXIMUM_GPUS)

    @property
    def visible(self) -> int:
        """GPUs that the pod sees."""
        return self.count

    def limits(self) -> dict[str, str]:
        """Return the resources to ask for."""
        return {GPU_RESOURCE: str(self.count)}


@checked("resources.gpus")
@dataclass(frozen=True, kw_only=True)
class SharedGpu:
    """One replica of a GPU that others use at the same time: time slicing or MPS."""

    visible = 1

    def limits(self) -> dict[str, str]:
        """Return the resources to ask for."""
        return {SHARED_GPU_RESOURCE: "1"}


@checked("resources.gpus")
@dataclass(frozen=True, kw_only=True)
class MigInstances:
    """A hardware partition of a GPU."""

    profile: str
    """MIG profile, such as 1g.10gb."""
    count: int = 1
    """Always 1: a CUDA process sees one MIG instance, however many its container has."""

    visible = 1

    def __post_init__(self) -> None:
        """Refuse an invalid profile, and more instances than a process can use.

        Source: NVIDIA, MIG User Guide, "Device Enumeration" (CUDA 11 and 12): a CUDA process enumerates a single
        instance. torch counts one device (pytorch issues 102715 and 130181), and NCCL is not designed for ranks on
        instances of one GPU (nccl issue 103).
        """
        if not _PROFILE.fullmatch(self.profile):
            raise RefusalError(
                "resources.gpus.profile",
                self.profile,
                "is not a valid MIG profile",
                "write it as <slices>g.<memory>gb, such as 1g.10gb",
            )
        if self.count != 1:
            limit = "a process sees a single MIG instance, and NCCL does not connect several: all but one would idle"
            fix = "omit count and use more pods or a larger profile, or use whole GPUs for a job on several GPUs"
            raise RefusalError("resources.gpus.count", self.count, limit, fix)

    def limits(self) -> dict[str, str]:
        """Return the resources to ask for."""
        return {mig_resource(self.profile): "1"}


@checked("resources.gpus")
@dataclass(frozen=True, kw_only=True)
class GpuMemory:
    """A part of one GPU's memory, on ACK pools shared by cGPU."""

    gib: int
    core_percentage: int | None = None
    """Share of the GPU's compute, where the pool isolates that too."""

    visible = 1

    def __post_init__(self) -> None:
        """Refuse what no GPU has."""
        check_range("resources.gpus.gib", self.gib, 1, 1024)
        if self.core_percentage is not None:
            check_range("resources.gpus.core_percentage", self.core_percentage, 1, 100)

    def limits(self) -> dict[str, str]:
        """Return the resources to ask for."""
        cores = {} if self.core_percentage is None else {GPU_CORE_RESOURCE: str(self.core_percentage)}
        return {GPU_MEMORY_RESOURCE: str(self.gib), **cores}


Accelerator = WholeGpus | SharedGpu | MigInstances | GpuMemory
