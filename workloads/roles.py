"""What every workload's pods share: resources, volumes, security, shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

DATA_PATH = "/data/data"
OUTPUT_PATH = "/data/output"
USER_ID = 10001
"""The user that trainer/Dockerfile creates; volumes are made writable for its group."""
GPU_RESOURCE = "nvidia.com/gpu"

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_CPU = re.compile(r"[0-9]+m|[0-9]+(\.[0-9]+)?")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?")
_MAXIMUM_NAME_LENGTH = 40


def check_name(field_name: str, name: str) -> None:
    """Refuse names that cannot become a pod's host name (RFC 1035 label, with room for suffixes).

    Raises:
        RefusalError: the name does not fit.
    """
    if len(name) > _MAXIMUM_NAME_LENGTH or not _NAME.fullmatch(name):
        raise RefusalError(
            field_name,
            name,
            f"must be at most {_MAXIMUM_NAME_LENGTH} of a-z, 0-9 and '-', starting with a letter",
            "choose a shorter name in lower case",
        )


def check_range(field_name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside low..high.

    Raises:
        RefusalError: naming the field, the value and both limits.
    """
    if not low <= value <= high:
        raise RefusalError(field_name, value, f"must be {low} to {high}", f"choose a number from {low} to {high}")


def check_command(field_name: str, command: Sequence[str]) -> None:
    """Refuse a command written as one string, which would be run letter by letter.

    Raises:
        RefusalError: naming the field and the value.
    """
    if isinstance(command, str):
        raise RefusalError(
            field_name, command, "is one string", 'write one item per word: ("-m", "trainer.train", "--epochs=30")'
        )


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one pod asks of its node."""

    cpu: str = "500m"
    """CPU request, in cores or millicores (`2`, `500m`). No limit: throttling would slow the slowest rank of all."""
    memory: str = "1Gi"
    """Memory request and limit (`4Gi`)."""
    gpus: int = 0
    """Whole GPUs, request and limit."""
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
        check_range("resources.gpus", self.gpus, 0, 16)

    @property
    def whole_cpus(self) -> int:
        """The CPU request in whole cores, at least one."""
        cores = int(self.cpu[:-1]) / 1000 if self.cpu.endswith("m") else float(self.cpu)
        return max(1, int(cores))

    def manifest(self) -> Manifest:
        """Return the `resources` of a container."""
        limits = {"memory": self.memory}
        if self.gpus:
            limits[GPU_RESOURCE] = str(self.gpus)
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
            "resources": self.resources.manifest(),
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
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
    """Return a pod spec at the Pod Security level `restricted`, with the workload volumes mounted."""
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
