"""What every workload's pods share: resources, volumes, security, shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError
from workloads.accelerators import Accelerator, WholeGpus
from workloads.checks import check_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

DATA_PATH = "/data/data"
OUTPUT_PATH = "/data/output"
USER_ID = 10001
"""The user that trainer/Dockerfile creates; volumes are made writable for its group."""

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


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container of a workload's pod."""

    name: str
    image: str
    command: Sequence[str]
    resources: Resources
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    """Port number by name."""
    writes_data: bool = False
    """Whether /data/data is mounted writable: only for steps that prepare it."""
    writes_output: bool = True
    """Whether /data/output is mounted writable."""
    devices: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further resources to ask for, such as an RDMA device."""
    capabilities: Sequence[str] = ()
    """Linux capabilities to add; any breaks Pod Security `restricted`."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the container, such as probes."""

    def manifest(self) -> Manifest:
        """Return the container: no privilege, read-only root, /tmp and /dev/shm writable."""
        return {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(self.command),
            "env": [{"name": key, "value": value} for key, value in sorted(self.env.items())],
            "ports": [{"name": key, "containerPort": port} for key, port in self.ports.items()],
            "resources": self.resources.manifest(self.devices),
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"], **({"add": list(self.capabilities)} if self.capabilities else {})},
            },
            "volumeMounts": [
                {"name": "data", "mountPath": DATA_PATH, "readOnly": not self.writes_data},
                {"name": "output", "mountPath": OUTPUT_PATH, "readOnly": not self.writes_output},
                {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
            ],
            **self.extra,
        }


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Names of the two PersistentVolumeClaims."""

    data: str
    output: str


def pod_spec(
    container: Container, claims: Claims, *, init_containers: Sequence[Container] = (), grace_period_seconds: int
) -> Manifest:
    """Return a pod spec with the workload volumes mounted; without added capabilities at Pod Security `restricted`."""
    return {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            # Changing the owner of every checkpoint file at each start would take minutes on a full volume.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_period_seconds,
        "initContainers": [init.manifest() for init in init_containers],
        "containers": [container.manifest()],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": claims.data}},
            {"name": "output", "persistentVolumeClaim": {"claimName": claims.output}},
            {"name": "tmp", "emptyDir": {}},
            {
                "name": "shared-memory",
                "emptyDir": {"medium": "Memory", "sizeLimit": container.resources.shared_memory},
            },
        ],
    }
