"""Roles: groups of equal pods that a job consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.pod_network import ExclusiveEni, PodNetwork, SharedEni
from infra.workload_labels import ROLE_LABEL
from workloads.checks import check_environment
from workloads.placement import Placement, Spread, Toleration
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest
    from infra.rdma import Rdma
    from workloads.pods import ClaimMount, Mount


@dataclass(frozen=True, kw_only=True)
class PodArgs:
    """What the pods of one role are and where they may run."""

    resources: Resources = Resources()
    """What one pod asks for."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further environment variables; they win over the job's own."""
    volumes: Sequence[ClaimMount] = ()
    """Volumes beside /data/data and /data/output."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    node_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further labels that the nodes must carry."""
    tolerations: Sequence[Toleration] = ()
    """Taints to accept beside those of the pool and of GPU nodes."""
    spread: Spread | None = None
    """How to distribute the pods. Default: packed on as few nodes as possible."""
    network: PodNetwork = SharedEni()
    """Network of the pods."""
    rdma: Rdma | None = None
    """Ask for the pool's RDMA device. Default: collectives between nodes go over TCP."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the cluster."""
        check_environment("env", self.env)


def helper_pod(beside: PodArgs, resources: Resources) -> PodArgs:
    """Return a small pod that coordinates others: on their network, but on any nodes, for it needs no GPU.

    Beside pods with whole interfaces it has the ordinary network: nodes that give every pod an interface of its own are
    those with GPUs.
    """
    network = SharedEni() if isinstance(beside.network, ExclusiveEni) else beside.network
    return PodArgs(resources=resources, network=network, tolerations=beside.tolerations)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command that runs in a pod before its program, in the job's image and with its code."""

    name: str
    command: Sequence[str]
    writes_data: bool = False
    """Whether it fills /data/data; it must be safe to run in several pods at once."""
    in_platform_image: bool = False
    """Whether it needs the platform's trainer image instead of the job's own."""


def prepare_steps(prepare: Sequence[str]) -> list[Step]:
    """Return the step that fills /data/data, if there is one."""
    return [Step(name="prepare", command=prepare, writes_data=True)] if prepare else []


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
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: Sequence[Step] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: Sequence[Mount] = ()
    writes_data: bool = False
    """Whether /data/data is writable."""
    policies: Sequence[Manifest] = ()
    """Volcano's life cycle policies of this role; they win over the job's."""

    @property
    def gang(self) -> int:
        """Pods of this role that must have a place before any pod starts."""
        return self.replicas if self.minimum is None else self.minimum

    def labels(self, job_labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that the pods of this role and no others carry."""
        return {**job_labels, ROLE_LABEL: self.name}

    def placement(self, job_labels: Mapping[str, str]) -> Placement:
        """Return what the pods ask of their nodes; `job_labels` are those that all pods of the job carry."""
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
