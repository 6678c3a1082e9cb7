"""Roles: the groups of equal pods that a job consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.job_pods import PREPARE
from infra.kubernetes.grammar import DnsSubdomain, LabelKey, LabelValue
from infra.pod_network_modes import ExclusiveEni, PodNetwork, SharedEni
from infra.rdma import Rdma
from infra.workload_labels import ROLE_LABEL
from workloads.accelerators import GpuMemory
from workloads.checks import Environment
from workloads.job_secrets import SecretFiles
from workloads.placement import Placement, Spread, Toleration
from workloads.pods import ClaimMount
from workloads.resources import Resources

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from workloads.pods import Mount
    from workloads.precision import Precision

Restart = Literal["together", "alone", "elastic"]
"""Elastic: alone, as often as Volcano counts failures; the program itself repeats what fails while others are lost."""
START_WAIT_SECONDS = 1800
"""How long pods wait for others to start: a node may have to be bought first, then load an image of several GB."""


@checked()
@dataclass(frozen=True, kw_only=True)
class PodArgs:
    """What the pods of one role are and where they may run."""

    resources: Resources = Resources()
    """What one pod asks for."""
    env: Environment = field(default_factory=dict[str, str])
    """Further environment variables; they win over the job's own. Values arrive as written, but for `$(ATHANOR_JOB)`,
    the job's name in the cluster."""
    secrets: Sequence[DnsSubdomain] = ()
    """Secrets of the workloads' namespace whose keys become environment variables, such as WANDB_API_KEY. Variables in
    `env` and those that the job sets win. Neither the program nor the stack's state has the values."""
    secret_files: Sequence[SecretFiles] = ()
    """Secrets of the workloads' namespace whose keys become files: `SecretFiles(secret="gcs", path="/secrets/gcs")`."""
    volumes: Sequence[ClaimMount] = ()
    """Volumes in addition to /data/data and /data/output."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    node_labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict[str, str])
    """Further labels that the nodes must carry."""
    tolerations: Sequence[Toleration] = ()
    """Taints to accept in addition to those of the pool and of GPU nodes."""
    spread: Spread | None = None
    """How to distribute the pods. Default: packed on as few nodes as possible."""
    network: PodNetwork = SharedEni()
    """Network of the pods."""
    rdma: Rdma | None = None
    """Ask for the pool's RDMA device. Default: collectives between nodes go over TCP."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the cluster.

        Raises:
            RefusalError: two volumes have the same path, or the pods ask for GPU memory, which only services can have.
        """
        paths = [mount.path for mount in (*self.volumes, *self.secret_files)]
        if twice := [path for path in paths if paths.count(path) > 1]:
            field_name = "volumes.path" if self.volumes else "secret_files.path"
            raise RefusalError(field_name, twice[0], "is the path of two volumes", "mount each at its own path")
        if isinstance(self.resources.accelerator, GpuMemory):
            limit = "only the ACK scheduler can assign a card to such a pod, but Volcano schedules jobs"
            fix = "request whole GPUs, on a pool without sharing"
            raise RefusalError("resources.gpus", self.resources.gpus, limit, fix)


def helper_pod(main: PodArgs, resources: Resources) -> PodArgs:
    """Return a small pod that coordinates others: on their network, but on any nodes, for it needs no GPU.

    If those have whole interfaces, it has the ordinary network: nodes that give every pod an interface of its own are
    those with GPUs.
    """
    network = SharedEni() if isinstance(main.network, ExclusiveEni) else main.network
    return PodArgs(resources=resources, network=network, tolerations=main.tolerations)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command that runs in a pod before its program, in the job's image and with its code."""

    name: str
    command: Sequence[str]
    writes_data: bool = False
    """Whether it fills /data/data; it must be safe to run in several pods at once."""
    writes_output: bool = False
    """Whether it fills /data/output."""
    in_platform_image: bool = False
    """Whether it needs the platform's trainer image instead of the job's own."""


def prepare_steps(prepare: Sequence[str]) -> list[Step]:
    """Return the step that fills /data/data, if there is one."""
    return [Step(name=PREPARE, command=prepare, writes_data=True)] if prepare else []


@dataclass(frozen=True, kw_only=True)
class Role:
    """A group of equal pods, complete: what the kind of job adds to what its user said."""

    name: str
    replicas: int
    pod: PodArgs
    command: Sequence[str]
    in_platform_image: bool = False
    """Whether it runs a program of the platform's own image, instead of the job's image and code."""
    minimum: int | None = None
    """Pods of this role without which the job does not run. Default: all."""
    processes: int = 1
    """Processes of one pod that compute: they share its cores."""
    precision: Precision | None = None
    """Numbers that they compute in; None if the program decides by itself."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    env_from_cluster: Sequence[Manifest] = ()
    """Variables whose values the cluster knows: name and valueFrom."""
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: Sequence[Step] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: Sequence[Mount] = ()
    writes_data: bool = False
    """Whether /data/data is writable."""
    probes: Mapping[str, Manifest] = field(default_factory=dict[str, "Manifest"])
    """By their fields of a container, such as livenessProbe."""
    restart: Restart = "together"
    """What starts again when one of its pods fails or is taken away: all pods of the job, or that pod alone."""
    ends_the_job: bool = False
    """Whether the success of its pods is the job's, whose other pods wait for work and are then ended."""
    needed: bool = True
    """Whether the job is over once one of its pods has failed for good; with False the others still do their part."""

    @property
    def gang(self) -> int:
        """Pods of this role that must have a place before any pod starts."""
        return self.replicas if self.minimum is None else self.minimum

    def labels(self, job_labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that the pods of this role and no others carry."""
        return {**job_labels, ROLE_LABEL: self.name}

    def placement(self, job_labels: Mapping[str, str]) -> Placement:
        """Return the requirements of the pods for their nodes; `job_labels` are on all pods of the job."""
        pod = self.pod
        return Placement(
            pods=self.replicas,
            own_labels=job_labels,
            resources=pod.resources,
            network=pod.network,
            pool=pod.pool,
            rdma=pod.rdma,
            node_labels=pod.node_labels,
            tolerations=pod.tolerations,
            spread=pod.spread,
            spread_labels=self.labels(job_labels),
        )
