"""Placement of a workload's pods on pools and networks: checked against the platform's offers, then rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pulumi

from infra.admitted import CONTROL_PLANE_TAINTS
from infra.descriptions import checked
from infra.errors import RefusalError, choices
from infra.kubernetes.grammar import LabelKey, LabelValue
from infra.kubernetes.quantities import gib_quantity, quantity_value
from infra.node_labels import POOL_LABEL
from infra.offers import GPU_TAINT, PlatformOffers, PoolOffer, pool_named
from infra.pod_network_modes import (
    ExclusiveEni,
    HostNetwork,
    PodNetwork,
    SharedEni,
    TrunkEni,
    interface,
    node_selector,
    spec_fields,
)
from infra.rdma import added_capabilities, device_limits, nccl_environment, socket_environment
from workloads.accelerator_fit import check_accelerator, pods_per_node
from workloads.accelerators import SharedGpu
from workloads.checks import check_range
from workloads.pods import GpuAccess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.instance_types import RdmaKind
    from infra.manifests import Manifest
    from infra.rdma import Rdma
    from workloads.resources import Resources


TaintEffect = Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


@checked("tolerations")
@dataclass(frozen=True, kw_only=True)
class Toleration:
    """Lets pods onto nodes with a taint in addition to those that the pool's own taints and GPUs allow for."""

    key: LabelKey
    value: LabelValue | None = None
    """Default: whatever the taint's value."""
    effect: TaintEffect | None = None
    """Default: whatever the taint's effect."""

    def __post_init__(self) -> None:
        """Refuse what the API server refuses in the platform's namespace.

        Raises:
            RefusalError: it is a taint of the control plane.
        """
        if self.key in CONTROL_PLANE_TAINTS:
            limit = "keeps workloads away from the control plane"
            raise RefusalError("tolerations.key", self.key, limit, "name a taint of other nodes")

    def manifest(self) -> Manifest:
        """Return the toleration as Kubernetes writes it."""
        matched = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **matched, **({"effect": self.effect} if self.effect else {})}

    def __str__(self) -> str:
        """Return it as `athanor run --toleration` takes it."""
        value = "" if self.value is None else f"={self.value}"
        return f"{self.key}{value}{f':{self.effect}' if self.effect else ''}"


@checked("spread")
@dataclass(frozen=True, kw_only=True)
class Spread:
    """Distributes the pods of a role evenly, so that the loss of one node or zone takes few of them."""

    over: Literal["nodes", "zones"] = "nodes"
    maximum_skew: int = 1
    """Largest difference in number of pods between two nodes or zones."""
    required: bool = False
    """Whether a pod rather waits than lands unevenly."""

    def __post_init__(self) -> None:
        """Refuse a skew that allows nothing.

        Raises:
            RefusalError: it is not 1 to 1000.
        """
        check_range("spread.maximum_skew", self.maximum_skew, 1, 1000)

    def constraint(self, labels: Mapping[str, str]) -> Manifest:
        """Return the topology spread constraint of pods with these labels."""
        return {
            "maxSkew": self.maximum_skew,
            "topologyKey": "kubernetes.io/hostname" if self.over == "nodes" else "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule" if self.required else "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(labels)},
        }


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The requirements of a workload for the nodes of its pods."""

    pods: int
    """Number of pods that run at once."""
    own_labels: Mapping[str, str]
    """Labels that all of them and no other pod carry."""
    resources: Resources
    network: PodNetwork
    pool: str | None
    rdma: Rdma | None
    node_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further labels that the nodes must carry."""
    tolerations: Sequence[Toleration] = ()
    spread: Spread | None = None
    spread_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the pods that are spread against each other."""


def check_placement(asked: Placement, offers: PlatformOffers) -> None:
    """Refuse what the platform's pools cannot give.

    Raises:
        RefusalError: naming what was asked, why it cannot be, and what can.
    """
    pool = pool_named(asked.pool, offers.pools) if asked.pool else None
    _check_network(asked.network, offers, pool)
    _check_rdma(asked, pool)
    _check_pod_security(asked, offers, pool)
    if pool:
        _check_room(asked, pool)
    elif asked.resources.accelerator and offers.pools:
        _check_any_room(asked, offers.pools)
    elif offers.pools and all(each.terway for each in offers.pools):
        _check_node_size(asked.resources, offers.pools)


def warn_of_pool_that_may_stay_empty(
    network: PodNetwork, pool: str | None, offers: PlatformOffers, workload: pulumi.Resource
) -> None:
    """Say in the preview that ACK's scalers may not create a node for a workload: see docs/alicloud.md.

    No document says how many interfaces of their own (`aliyun/member-eni`) the pods of a node can have, so no tag of
    the pool can tell the autoscaler.
    """
    named = next((each for each in offers.pools if each.name == pool), None)
    if named and isinstance(network, TrunkEni) and named.terway and not named.min_nodes and named.max_nodes:
        pulumi.log.warn(
            f"Pool {named.name!r} may be empty (minimum 0), and its autoscaler does not expect the interface that"
            " network=TrunkEni asks for of a new node: set the pool's minimum to 1, or the pods may wait forever",
            workload,
        )


def _check_network(network: PodNetwork, offers: PlatformOffers, pool: PoolOffer | None) -> None:
    if isinstance(network, HostNetwork):
        return
    places = [pool] if pool else list(offers.pools)
    kind = type(network).__name__
    if isinstance(network, SharedEni):
        if pool and pool.eni == "exclusive":
            limit = f"every pod of pool {pool.name!r} gets its own network interface"
            raise RefusalError("network", kind, limit, "use network=ExclusiveEni(), or another pool")
        return
    if not any(place.terway for place in places):
        limit = "is a mode of Terway, the network of ACK clusters, but these nodes are not ACK nodes"
        raise RefusalError("network", kind, limit, "omit network")
    if isinstance(network, ExclusiveEni):
        if not any(place.eni == "exclusive" for place in places):
            able = [offer.name for offer in offers.pools if offer.eni == "exclusive"]
            fix = f"use pool={able[0]!r}" if able else "create a node pool with `eni: exclusive`"
            raise RefusalError("network", kind, "the nodes share their network interfaces between pods", fix)
        return
    if not any(place.terway and place.eni == "shared" for place in places):
        limit = "its nodes give every pod its own interface, so they have no trunk interface"
        raise RefusalError("network", kind, limit, "use a pool with `eni: shared`, or network=ExclusiveEni()")
    if network.pod_networking not in offers.pod_networkings:
        raise RefusalError(
            "network.pod_networking",
            network.pod_networking,
            "the platform has no PodNetworking of that name",
            choices(network.pod_networking, offers.pod_networkings),
        )


def _check_rdma(asked: Placement, pool: PoolOffer | None) -> None:
    rdma = asked.rdma
    if rdma is None:
        return
    if pool is None:
        raise RefusalError(
            "rdma", rdma, "needs a pool, whose nodes determine the device", "set pool to one with `rdma: true`"
        )
    if pool.rdma == "none":
        raise RefusalError("rdma", rdma, f"pool {pool.name!r} has no RDMA", "set pool to one with `rdma: true`")
    if pool.rdma_on_host_network_only and not isinstance(asked.network, HostNetwork):
        limit = (
            f"pool {pool.name!r} consists of Lingjun machines, whose RDMA reaches pods with their own address only"
            " over an IPv6 computing network"
        )
        fix = "use network=HostNetwork(interface=…), or set the pool's lingjun.ipv6 to true if the network has IPv6"
        raise RefusalError("rdma", rdma, limit, fix)


def _check_pod_security(asked: Placement, offers: PlatformOffers, pool: PoolOffer | None) -> None:
    if offers.pod_security == "privileged":
        return
    broken: dict[str, object] = {}
    if isinstance(asked.network, HostNetwork):
        broken["network"] = "HostNetwork"
    if added_capabilities(_rdma_kind(asked, pool)):
        broken["rdma"] = asked.rdma
    for name, value in broken.items():
        limit = f"the workloads' namespace is at Pod Security level {offers.pod_security!r}, which forbids it"
        raise RefusalError(
            name, value, limit, "set athanor:pod_security to privileged, which applies to all workloads, or omit it"
        )


def _check_room(asked: Placement, pool: PoolOffer) -> None:
    if asked.resources.accelerator:
        check_accelerator(asked.resources.accelerator, pool)
    _check_node_size(asked.resources, [pool])
    per_node = _pods_per_node(asked, pool)
    # A pool of maximum 0 is one that is turned off for a while: its pods wait, as while other jobs use it.
    if pool.max_nodes and per_node is not None and asked.pods > per_node * pool.max_nodes:
        limit = f"pool {pool.name!r} has at most {pool.max_nodes} nodes, each of which holds {per_node} of these pods"
        raise RefusalError("pods", asked.pods, limit, "request fewer, or raise the pool's maximum")


def _check_node_size(resources: Resources, pools: Sequence[PoolOffer]) -> None:
    """Refuse a pod that asks for more CPU or memory than the largest node of these pools has."""
    nodes = [pool.node for pool in pools if pool.node]
    if len(nodes) < len(pools):
        return
    most_cpu = max(node.largest_vcpus for node in nodes)
    most_memory = max(node.largest_memory_gib for node in nodes)
    where = ", ".join(repr(pool.name) for pool in pools)
    for name, value, most in (
        ("cpu", resources.cpu, str(most_cpu)),
        ("memory", resources.memory_size, gib_quantity(most_memory)),
    ):
        if quantity_value(value) > quantity_value(most):
            limit = f"the largest node of {where} has {most}"
            fix = "request less, leaving room for the node's own programs, or use a pool of larger nodes"
            raise RefusalError(f"resources.{name}", value, limit, fix)


def _pods_per_node(asked: Placement, pool: PoolOffer) -> int | None:
    """Return how many of the pods a node takes at most; None where nothing that we know limits them."""
    accelerator = asked.resources.accelerator
    limits = (
        1 if isinstance(asked.network, HostNetwork) else None,
        pool.exclusive_pods if isinstance(asked.network, ExclusiveEni) else None,
        pods_per_node(accelerator, pool) if accelerator else None,
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _check_any_room(asked: Placement, pools: tuple[PoolOffer, ...]) -> None:
    reasons: dict[str, str] = {}
    for pool in pools:
        try:
            _check_room(asked, pool)
        except RefusalError as refusal:
            reasons[pool.name] = refusal.limit
        else:
            return
    listed = "; ".join(dict.fromkeys(reasons.values()))
    raise RefusalError(
        "resources.gpus",
        asked.resources.gpus,
        f"no pool of the platform can satisfy this: {listed}",
        "request less, or add a pool",
    )


def _rdma_kind(asked: Placement, pool: PoolOffer | None) -> RdmaKind:
    return pool.rdma if asked.rdma and pool else "none"


def _pool(asked: Placement, offers: PlatformOffers) -> PoolOffer | None:
    return pool_named(asked.pool, offers.pools) if asked.pool else None


def devices(asked: Placement, offers: PlatformOffers) -> dict[str, str]:
    """Return the resources that the container requests in addition to CPU, memory and GPUs."""
    return device_limits(_rdma_kind(asked, _pool(asked, offers)))


def capabilities(asked: Placement, offers: PlatformOffers) -> list[str]:
    """Return the capabilities that the container adds."""
    return added_capabilities(_rdma_kind(asked, _pool(asked, offers)))


def network_environment(asked: Placement, offers: PlatformOffers) -> dict[str, str]:
    """Return the environment of collectives: which interface, and what NCCL must know of the pool's nodes."""
    pool = _pool(asked, offers)
    own = {
        "GLOO_SOCKET_IFNAME": interface(asked.network),
        **socket_environment(asked.network),
        # NCCL's usual level says nothing at all.
        "NCCL_DEBUG": "WARN",
    }
    if pool is None or not asked.resources.visible_gpus:
        return own
    level = asked.rdma.gpudirect_level if asked.rdma else None
    return {**own, **nccl_environment(pool.node, asked.network, _rdma_kind(asked, pool), level)}


def gpu_access(asked: Placement, offers: PlatformOffers) -> GpuAccess:
    """Return how the platform's nodes give GPUs to containers."""
    return GpuAccess(
        by_variable=offers.gpus_by_variable,
        through_mps=offers.mps and isinstance(asked.resources.accelerator, SharedGpu),
    )


def placed(spec: Manifest, asked: Placement, offers: PlatformOffers) -> Manifest:
    """Return a pod spec with the placement added; one that asks for nothing stays as it is."""
    pool = _pool(asked, offers)
    added: Manifest = {
        "nodeSelector": {
            **asked.node_labels,
            **({POOL_LABEL: pool.name} if pool else {}),
            **node_selector(asked.network),
        },
        "tolerations": _tolerations(asked, pool),
        "affinity": _affinity(asked),
        "runtimeClassName": offers.gpu_runtime_class if asked.resources.accelerator else None,
        "topologySpreadConstraints": [asked.spread.constraint(asked.spread_labels)] if asked.spread else [],
    }
    return {**spec, **spec_fields(asked.network), **{key: value for key, value in added.items() if value}}


def _tolerations(asked: Placement, pool: PoolOffer | None) -> list[dict[str, str]]:
    gpu = [GPU_TAINT.toleration()] if asked.resources.accelerator else []
    own = [taint.toleration() for taint in pool.taints] if pool else []
    own += [toleration.manifest() for toleration in asked.tolerations]
    return gpu + [toleration for toleration in own if toleration not in gpu]


def _affinity(asked: Placement) -> dict[str, Any]:
    """Keep pods of one workload apart on the hosts' network: they use the same ports."""
    if not isinstance(asked.network, HostNetwork):
        return {}
    term = {"labelSelector": {"matchLabels": dict(asked.own_labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
