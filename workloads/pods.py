"""The common part of all workloads' pods: volumes, security, shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import AbsolutePath, DnsSubdomain
from infra.kubernetes.pods import container_security, pod_security

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
JOB_VARIABLE = "ATHANOR_JOB"
"""Variable with the name of the job's object, or of the service."""
INDEX_VARIABLE = "VC_TASK_INDEX"
"""Variable with the pod's index within its role, which Volcano's env plugin sets."""
_DATA, _OUTPUT = "data", "output"
"""Names, within a pod, of the volumes that every pod has."""
_SCRATCH_LIMIT = "50Gi"
"""Size of /tmp: less than a node's disk, which all of its pods share; a job that needs more mounts a volume."""
_SHARED_MEMORY_MOUNT = {"name": "shared-memory", "mountPath": "/dev/shm"}  # noqa: S108 - inside the container
_EXPANSION = re.compile(r"(?P<dollars>\$+)(?P<reference>\((?:(?P<name>\w+)\))?|)")
_OWN_PATHS = (
    *(DATA_PATH, OUTPUT_PATH, "/tmp", "/source", "/etc/athanor", "/opt/athanor"),  # noqa: S108 - in the container
    # of the job engine, the node, the kernel, and the image's programs
    *("/etc/volcano", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group"),
    *("/dev", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64"),
)


@checked("volumes")
@dataclass(frozen=True, kw_only=True)
class ClaimMount:
    """A volume of the user's in addition to /data/data and /data/output."""

    claim: DnsSubdomain
    """Name of a PersistentVolumeClaim in the workloads' namespace."""
    path: AbsolutePath
    """Where the pods see it, such as /scratch."""
    read_only: bool = False

    def __post_init__(self) -> None:
        """Refuse a path that would hide what every pod has.

        Raises:
            RefusalError: it is in or above a path of the pod's own.
        """
        check_mount_path("volumes.path", self.path)

    def __str__(self) -> str:
        """Return it as `athanor run --volume` takes it."""
        return f"{self.claim}:{self.path}{':ro' if self.read_only else ''}"


def as_written(text: str, *expanded: str) -> str:
    """Return a word of a command, or the value of a variable, in the form that a container gets unchanged.

    Kubernetes replaces `$(NAME)` in both by the container's variable of that name, and `$$` by `$`
    (k8s.io/kubernetes, third_party/forked/golang/expansion/expand.go). A text without either stays as it is.

    Args:
        text: What the container is to get.
        expanded: Names of variables whose `$(NAME)` is to be replaced.
    """

    def escaped(match: re.Match[str]) -> str:
        dollars, name = match["dollars"], match["name"]
        if name in expanded:
            return f"{dollars[:-1] * 2}${match['reference']}"
        return dollars if dollars == "$" and not match["reference"] else f"{dollars * 2}{match['reference']}"

    return _EXPANSION.sub(escaped, text)


def check_mount_path(field_name: str, path: str) -> None:
    """Refuse a path that would hide what every pod has.

    Raises:
        RefusalError: it is in or above a path of the pod's own.
    """
    for own in _OWN_PATHS:
        if own == path or own.startswith(f"{path}/") or path.startswith(f"{own}/"):
            limit = f"{own} already exists in every pod"
            raise RefusalError(field_name, path, limit, "mount it elsewhere, such as /scratch")


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
class GpuAccess:
    """The mode in which the nodes of a pod give GPUs to its containers."""

    by_variable: bool = True
    """Whether the device plugin may name a container's GPUs in NVIDIA_VISIBLE_DEVICES."""
    through_mps: bool = False
    """Whether the pod's GPU is shared by MPS, whose daemon the device plugin connects containers with."""

    @property
    def own_shared_memory(self) -> bool:
        """Whether /dev/shm is the pod's own.

        The device plugin mounts the MPS daemon's there (NVIDIA/k8s-device-plugin, internal/plugin/mps.go), and a volume
        of the pod's at the same path hides it: CUDA then finds no daemon (issue 805).
        """
        return not self.through_mps

    def variables(self, *, has_gpus: bool) -> dict[str, str]:
        """Return the variables that keep a container from GPUs that it did not request.

        Where NVIDIA's is the nodes' default runtime, the variable of an image, `all` in those with CUDA, gives a
        container every GPU of its node (NVIDIA/k8s-device-plugin, README, "Running GPU Jobs";
        NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go). A device plugin that passes GPUs by CDI
        or mounts leaves the variable as it is; one that sets it is overruled by the pod, which then must not.
        """
        return {} if has_gpus and self.by_variable else {"NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container of a workload's pod."""

    name: str
    image: str
    command: Sequence[str]
    """Its words, as the program gets them, but for `$(NAME)` of the variables in `expanded`."""
    resources: Resources
    expanded: Sequence[str] = (JOB_VARIABLE, INDEX_VARIABLE)
    """Variables whose `$(NAME)` in the command stands for their values."""
    start: Sequence[str] = ()
    """Words that run the command, such as a shell that prepares something for it."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables, with their values as the program gets them, but for `$(ATHANOR_JOB)`."""
    env_from_cluster: Sequence[Manifest] = ()
    """Variables whose values the cluster knows, in its own form: name and valueFrom."""
    secrets: Sequence[str] = ()
    """Names of Secrets whose keys become variables."""
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    """Port number by name."""
    writes_data: bool = False
    """Whether /data/data is mounted writable: only for steps that prepare it."""
    writes_output: bool = True
    """Whether /data/output is mounted writable."""
    devices: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further resources to ask for, such as an RDMA device."""
    user: int | None = None
    """User id; None is the pod's own, USER_ID."""
    read_only_root: bool = True
    capabilities: Sequence[str] = ()
    """Linux capabilities to add; any breaks Pod Security `restricted`."""
    mounts: Sequence[Mount] = ()
    """Volumes in addition to those that every container has."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the container, such as probes."""

    def manifest(self, gpus: GpuAccess) -> Manifest:
        """Return the container: no privilege, by default a read-only root, /tmp and /dev/shm writable."""
        visible = gpus.variables(has_gpus=self.resources.accelerator is not None)
        return {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            **self._command(),
            "env": [*_variables({**self.env, **visible}), *self.env_from_cluster],
            **({"envFrom": [{"secretRef": {"name": name}} for name in self.secrets]} if self.secrets else {}),
            "ports": [{"name": key, "containerPort": port} for key, port in self.ports.items()],
            "resources": self.resources.manifest(self.devices),
            "securityContext": {
                **container_security(added_capabilities=self.capabilities, writable_root=not self.read_only_root),
                **self._user(),
            },
            "volumeMounts": [
                {"name": _DATA, "mountPath": DATA_PATH, "readOnly": not self.writes_data},
                {"name": _OUTPUT, "mountPath": OUTPUT_PATH, "readOnly": not self.writes_output},
                {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                *([_SHARED_MEMORY_MOUNT] if gpus.own_shared_memory else []),
                *(_volume_mount(mount) for mount in self.mounts),
            ],
            **self.extra,
        }

    def _user(self) -> Manifest:
        if self.user is None:
            return {}
        return {"runAsUser": self.user, **({} if self.user else {"runAsNonRoot": False})}

    def _command(self) -> Manifest:
        command = [as_written(word, *self.expanded) for word in self.command]
        return {"command": [*map(as_written, self.start)], "args": command} if self.start else {"command": command}


def _variables(values: Mapping[str, str]) -> list[Manifest]:
    """Return variables in the order of their names; those that name another one come after all that do not."""
    texts = {name: as_written(value, JOB_VARIABLE) for name, value in values.items()}
    later = {name for name, value in values.items() if texts[name] != as_written(value)}
    return [{"name": name, "value": texts[name]} for name in sorted(texts, key=lambda name: (name in later, name))]


def _volume_mount(mount: Mount) -> Manifest:
    manifest: Manifest = {"name": mount.name, "mountPath": mount.path}
    if mount.read_only:
        manifest["readOnly"] = True
    if mount.sub_path:
        manifest["subPath"] = mount.sub_path
    return manifest


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Names of the two PersistentVolumeClaims."""

    data: str
    output: str


def claim_mounts(volumes: Sequence[ClaimMount], claims: Claims) -> list[Mount]:
    """Return the user's own volumes as mounts.

    A claim mounted at several paths, or as /data/data or /data/output too, is one volume: kubelet never finishes
    mounting one claim as two volumes, and the pod stays Pending (kubernetes/kubernetes, issue 51853).
    """
    names = {claims.data: _DATA, claims.output: _OUTPUT}
    further = dict.fromkeys(volume.claim for volume in volumes if volume.claim not in names)
    names |= {claim: f"volume-{number}" for number, claim in enumerate(further)}
    return [
        Mount(
            name=names[volume.claim],
            path=volume.path,
            volume=_claim_volume(volume.claim),
            read_only=volume.read_only,
        )
        for volume in volumes
    ]


def _claim_volume(claim: str) -> Manifest:
    return {"persistentVolumeClaim": {"claimName": claim}}


def pod_spec(
    container: Container,
    claims: Claims,
    *,
    init_containers: Sequence[Container] = (),
    grace_period_seconds: int,
    gpus: GpuAccess,
) -> Manifest:
    """Return a pod spec with the workload volumes mounted; without added capabilities at Pod Security `restricted`."""
    if container.resources.guaranteed:
        # A pod is of that class only if all of its containers are.
        init_containers = [_guaranteed(init) for init in init_containers]
    shared_memory = {"medium": "Memory", "sizeLimit": container.resources.shared_memory_size}
    volumes: dict[str, Manifest] = {
        _DATA: _claim_volume(claims.data),
        _OUTPUT: _claim_volume(claims.output),
        "tmp": {"emptyDir": {"sizeLimit": _SCRATCH_LIMIT}},
        **({"shared-memory": {"emptyDir": shared_memory}} if gpus.own_shared_memory else {}),
        **{mount.name: mount.volume for each in (container, *init_containers) for mount in each.mounts},
    }
    return {
        "securityContext": pod_security(USER_ID),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_period_seconds,
        "initContainers": [init.manifest(gpus) for init in init_containers],
        "containers": [container.manifest(gpus)],
        "volumes": [{"name": name, **volume} for name, volume in volumes.items()],
    }


def _guaranteed(container: Container) -> Container:
    resources = container.resources
    return replace(container, resources=replace(resources, cpu=str(resources.whole_cpus), guaranteed=True))
