"""Pods of every workload: volumes, security, shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError
from workloads.checks import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest
    from workloads.resources import Resources

DATA_PATH = "/data/data"
OUTPUT_PATH = "/data/output"
USER_ID = 10001
"""The user that trainer/Dockerfile creates; volumes are made writable for its group."""
LOG_ENVIRONMENT = {"ATHANOR_LOG_FORMAT": "json"}
"""Lets the programs of trainer/ write lines that a log store can search by job, rank and step."""
_OWN_PATHS = (DATA_PATH, OUTPUT_PATH, "/tmp", "/dev/shm", "/source", "/etc/athanor")  # noqa: S108 - in the container


@dataclass(frozen=True, kw_only=True)
class ClaimMount:
    """A volume of the user's beside /data/data and /data/output."""

    claim: str
    """Name of a PersistentVolumeClaim in the workloads' namespace."""
    path: str
    """Where the pods see it, such as /scratch."""
    read_only: bool = False

    def __post_init__(self) -> None:
        """Refuse a path that would hide what every pod has.

        Raises:
            RefusalError: it is not absolute, or lies in or above a path of the pod's own.
        """
        check_path("volumes.path", self.path)
        for own in _OWN_PATHS:
            if own == self.path or own.startswith(f"{self.path}/") or self.path.startswith(f"{own}/"):
                limit = f"{own} belongs to every pod already"
                raise RefusalError("volumes.path", self.path, limit, "mount it elsewhere, such as /scratch")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A volume of any kind and where a container sees it."""

    name: str
    path: str
    volume: Manifest
    """The volume's source, such as {"emptyDir": {}}."""
    read_only: bool = True
    sub_path: str | None = None


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
    mounts: Sequence[Mount] = ()
    """Volumes beside those that every container has."""
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
                *(_volume_mount(mount) for mount in self.mounts),
            ],
            **self.extra,
        }


def _volume_mount(mount: Mount) -> Manifest:
    found: Manifest = {"name": mount.name, "mountPath": mount.path}
    if mount.read_only:
        found["readOnly"] = True
    if mount.sub_path:
        found["subPath"] = mount.sub_path
    return found


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Names of the two PersistentVolumeClaims."""

    data: str
    output: str


def claim_mounts(volumes: Sequence[ClaimMount]) -> list[Mount]:
    """Return the user's own volumes as mounts."""
    return [
        Mount(
            name=f"volume-{index}",
            path=volume.path,
            volume={"persistentVolumeClaim": {"claimName": volume.claim}},
            read_only=volume.read_only,
        )
        for index, volume in enumerate(volumes)
    ]


def pod_spec(
    container: Container, claims: Claims, *, init_containers: Sequence[Container] = (), grace_period_seconds: int
) -> Manifest:
    """Return a pod spec with the workload volumes mounted; without added capabilities at Pod Security `restricted`."""
    mounts = {mount.name: mount for each in (container, *init_containers) for mount in each.mounts}
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
            *({"name": name, **mount.volume} for name, mount in mounts.items()),
        ],
    }
