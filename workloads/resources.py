"""Resources that a pod requests from its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Cpu, Memory
from infra.kubernetes.quantities import quantity_value
from workloads.accelerators import Accelerator, WholeGpus
from workloads.checks import check_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.manifests import Manifest

_MEMORY = "1Gi"
_GIB_PER_GPU = 8
"""A CUDA process has 3 to 4 GiB of libraries, page-locked buffers and its context in the machine's memory before it has
loaded any data (an estimate); the smallest share of a node's memory that a GPU has in infra/instance_types.py is 15."""
_GIB_PER_SHARE = 4
_SHARED_MEMORY = "256Mi"
_SHARED_MEMORY_GIB_PER_GPU = 1
"""In a pod NCCL's shared memory is in /dev/shm: memory of a NUMA node, its first choice, needs a system call that the
runtime's default filter forbids (NCCL 2.30, src/misc/cudawrap.cc). About 10 MiB per connection and channel
(src/transport/shm.cc: the buffers of all protocols), 32 channels to two neighbours or more."""


@checked("resources")
@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one pod asks of its node."""

    cpu: Cpu = "500m"
    """CPU request, in cores or millicores (`2`, `500m`). No limit: throttling would slow the slowest rank of all."""
    memory: Memory | None = None
    """Memory request and limit (`4Gi`). Default: 8Gi for each whole GPU, 4Gi for a share of one, 1Gi without GPUs."""
    gpus: int | Accelerator = 0
    """Whole GPUs by their number, or a share: `SharedGpu()`, `MigInstances(...)`, `GpuMemory(...)`."""
    shared_memory: Memory | None = None
    """Size of /dev/shm; counts against `memory`. PyTorch's data workers and NCCL need it: for each rank a batch of each
    worker and two more (on CPUs six), and up to 640Mi for the GPUs' connections without NVLink. Default: 1Gi for each
    GPU, 256Mi without any, or all of `memory` if that is less. Under MPS it is the node's, and this has no effect."""
    guaranteed: bool = False
    """Whether the pod is of Kubernetes' class Guaranteed: a CPU limit like the request, for whole cores. On nodes whose
    kubelet has the CPU manager's policy `static` it then has cores of its own, on its GPU's NUMA node if the topology
    manager is on, too. Default: it may use whatever cores are idle."""

    def __post_init__(self) -> None:
        """Refuse GPU counts that no node has, and shared memory that the pod's memory limit cannot hold."""
        if isinstance(self.gpus, int):
            check_range("resources.gpus", self.gpus, 0, 16)
        if self.shared_memory and quantity_value(self.shared_memory) > quantity_value(self.memory_size):
            limit = f"is more than the pod's memory, {self.memory_size}, which includes it"
            raise RefusalError("resources.shared_memory", self.shared_memory, limit, "raise memory, or request less")
        if self.guaranteed and (quantity_value(self.cpu) < 1 or quantity_value(self.cpu) % 1):
            limit = "a guaranteed pod gets whole cores, at least one"
            fix = f"write cpu={str(self.whole_cpus)!r} or more, or omit guaranteed"
            raise RefusalError("resources.cpu", self.cpu, limit, fix)

    @property
    def memory_size(self) -> str:
        """Memory request and limit."""
        asked = self.accelerator
        if self.memory or asked is None:
            return self.memory or _MEMORY
        return f"{asked.count * _GIB_PER_GPU if isinstance(asked, WholeGpus) else _GIB_PER_SHARE}Gi"

    @property
    def shared_memory_size(self) -> str:
        """Size of /dev/shm."""
        usual = f"{self.visible_gpus * _SHARED_MEMORY_GIB_PER_GPU}Gi" if self.visible_gpus else _SHARED_MEMORY
        return self.shared_memory or min(usual, self.memory_size, key=quantity_value)

    @property
    def accelerator(self) -> Accelerator | None:
        """The GPUs that the pod requests; None for none."""
        if isinstance(self.gpus, int):
            return WholeGpus(count=self.gpus) if self.gpus else None
        return self.gpus

    @property
    def visible_gpus(self) -> int:
        """GPUs, or parts of them, that the pod sees."""
        return self.accelerator.visible if self.accelerator else 0

    @property
    def ranks(self) -> int:
        """Processes that compute in the pod unless a job says otherwise: one per GPU, one without GPUs."""
        return max(1, self.visible_gpus)

    @property
    def whole_cpus(self) -> int:
        """The CPU request in whole cores, at least one."""
        return max(1, int(quantity_value(self.cpu)))

    def manifest(self, devices: Mapping[str, str] | None = None) -> Manifest:
        """Return the `resources` of a container that also asks for these devices."""
        gpus = self.accelerator.limits() if self.accelerator else {}
        limits = {"memory": self.memory_size, **gpus, **(devices or {})}
        cpu = {"cpu": self.cpu}
        return {"requests": {**cpu, **limits}, "limits": {**cpu, **limits} if self.guaranteed else limits}
