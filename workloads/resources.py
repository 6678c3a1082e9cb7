"""What one pod asks of its node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from workloads.accelerators import Accelerator, WholeGpus
from workloads.checks import check_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.manifests import Manifest

_CPU = re.compile(r"[0-9]+m|[0-9]+(\.[0-9]+)?")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one pod asks of its node."""

    cpu: str = "500m"
    """CPU request, in cores or millicores (`2`, `500m`). No limit: throttling would slow the slowest rank of all."""
    memory: str = "1Gi"
    """Memory request and limit (`4Gi`)."""
    gpus: int | Accelerator = 0
    """Whole GPUs by their number, or a share: `SharedGpu()`, `MigInstances(...)`, `GpuMemory(...)`."""
    shared_memory: str = "256Mi"
    """Size of /dev/shm; counts against `memory`. PyTorch's data workers and NCCL need it."""

    def __post_init__(self) -> None:
        """Refuse what Kubernetes would refuse only when the pod is created."""
        if not _CPU.fullmatch(self.cpu):
            raise RefusalError("resources.cpu", self.cpu, "is no CPU quantity", "write cores or millicores: 2, 500m")
        for name in ("memory", "shared_memory"):
            value = str(getattr(self, name))
            if not _MEMORY.fullmatch(value):
                raise RefusalError(f"resources.{name}", value, "is no memory quantity", "write bytes or a unit: 4Gi")
        if isinstance(self.gpus, int):
            check_range("resources.gpus", self.gpus, 0, 16)

    @property
    def accelerator(self) -> Accelerator | None:
        """What the pod asks for of GPUs; None for nothing."""
        if isinstance(self.gpus, int):
            return WholeGpus(count=self.gpus) if self.gpus else None
        return self.gpus

    @property
    def visible_gpus(self) -> int:
        """GPUs, or parts of them, that the pod sees."""
        return self.accelerator.visible if self.accelerator else 0

    @property
    def whole_cpus(self) -> int:
        """The CPU request in whole cores, at least one."""
        cores = int(self.cpu[:-1]) / 1000 if self.cpu.endswith("m") else float(self.cpu)
        return max(1, int(cores))

    def manifest(self, devices: Mapping[str, str] | None = None) -> Manifest:
        """Return the `resources` of a container that also asks for these devices."""
        gpus = self.accelerator.limits() if self.accelerator else {}
        limits = {"memory": self.memory, **gpus, **(devices or {})}
        return {"requests": {"cpu": self.cpu, **limits}, "limits": limits}
