"""Where a workload's pods may run and on which network: checked against what the platform offers, then written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from infra.errors import RefusalError, choices
from infra.instance_types import instance_type
from infra.pod_network import (
    ExclusiveEni,
    HostNetwork,
    PodNetwork,
    SharedEni,
    interface,
    node_selector,
    spec_fields,
)
from infra.pools import GPU_TAINT, POOL_LABEL, PlatformOffers, PoolOffer, pool_named
from infra.rdma import added_capabilities, device_limits, nccl_environment
from workloads.accelerator_fit import check_accelerator, pods_per_node
from workloads.checks import check_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.instance_types import RdmaKind
    from infra.manifests import Manifest
    from infra.rdma import Rdma
    from workloads.resources import Resources


@dataclass(frozen=True, kw_only=True)
class Toleration:
    """Lets pods onto nodes with a taint beside those that the pool's own taints and GPUs allow for."""

    key: str
    value: str | None = None
    """Default: whatever the taint's value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] | None = None
    """Default: whatever the taint's effect."""

    def manifest(self) -> Manifest:
        """Return the toleration as Kubernetes writes it."""
        matched = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **matched, **({"effect": self.effect} if self.effect else {})}


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
    """What a workload asks of the nodes its pods run on."""

    pods: int
    """How many pods run at once."""
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
    _check_rdma(asked.rdma, pool)
    _check_pod_security(asked, offers, pool)
    if pool:
        _check_room(asked, pool)
    elif asked.resources.accelerator and offers.pools:
        _check_any_room(asked, offers.pools)


def _check_network(network: PodNetwork, offers: PlatformOffers, pool: PoolOffer | None) -> None:
    if isinstance(network, HostNetwork):
        return
    places = [pool] if pool else list(offers.pools)
    kind = type(network).__name__
    if isinstance(network, SharedEni):
        if pool and pool.eni == "exclusive":
            limit = f"every pod of pool {pool.name!r} gets a network interface of its own"
            raise RefusalError("network", kind, limit, "use network=ExclusiveEni(), or another pool")
        return
    if not any(place.terway for place in places):
        limit = "is a mode of Terway, the network of ACK clusters, and these nodes are not ACK's"
        raise RefusalError("network", kind, limit, "leave network out")
    if isinstance(network, ExclusiveEni):
        if not any(place.eni == "exclusive" for place in places):
            able = [offer.name for offer in offers.pools if offer.eni == "exclusive"]
            fix = f"use pool={able[0]!r}" if able else "give a node pool `eni: exclusive`, from its birth on"
            raise RefusalError("network", kind, "the nodes share their network interfaces among pods", fix)
        return
    if not any(place.terway and place.eni == "shared" for place in places):
        limit = "its nodes give every pod an interface of its own, so they have no trunk"
        raise RefusalError("network", kind, limit, "use a pool with `eni: shared`, or network=ExclusiveEni()")
    if network.pod_networking not in offers.pod_networkings:
        raise RefusalError(
            "network.pod_networking",
            network.pod_networking,
            "the platform has no PodNetworking of that name",
            choices(network.pod_networking, offers.pod_networkings),
        )


def _check_rdma(rdma: Rdma | None, pool: PoolOffer | None) -> None:
    if rdma is None:
        return
    if pool is None:
        raise RefusalError("rdma", rdma, "needs a pool: its nodes decide the device", "name a pool with `rdma: true`")
    if pool.rdma == "none":
        raise RefusalError("rdma", rdma, f"pool {pool.name!r} has no RDMA", "name a pool with `rdma: true`")
    if rdma.smc_r and pool.rdma != "erdma":
        raise RefusalError(
            "rdma.smc_r", rdma.smc_r, f"pool {pool.name!r} has no eRDMA, which it is a part of", "leave it out"
        )


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
            name, value, limit, "set athanor:pod_security to privileged, for all workloads, or do without"
        )


def _check_room(asked: Placement, pool: PoolOffer) -> None:
    if asked.resources.accelerator:
        check_accelerator(asked.resources.accelerator, pool)
    per_node = _pods_per_node(asked, pool)
    if per_node is not None and asked.pods > per_node * pool.max_nodes:
        limit = f"pool {pool.name!r} holds at most {pool.max_nodes} nodes with {per_node} such pods each"
        raise RefusalError("pods", asked.pods, limit, "ask for less, or raise the pool's maximum")


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
    told = "; ".join(dict.fromkeys(reasons.values()))
    raise RefusalError(
        "resources.gpus",
        asked.resources.gpus,
        f"no pool of the platform offers that: {told}",
        "ask for less, or add a pool",
    )


def _rdma_kind(asked: Placement, pool: PoolOffer | None) -> RdmaKind:
    return pool.rdma if asked.rdma and pool else "none"


def _pool(asked: Placement, offers: PlatformOffers) -> PoolOffer | None:
    return pool_named(asked.pool, offers.pools) if asked.pool else None


def devices(asked: Placement, offers: PlatformOffers) -> dict[str, str]:
    """Return what the container asks for beside CPU, memory and GPUs."""
    return device_limits(_rdma_kind(asked, _pool(asked, offers)))


def capabilities(asked: Placement, offers: PlatformOffers) -> list[str]:
    """Return the capabilities that the container adds."""
    return added_capabilities(_rdma_kind(asked, _pool(asked, offers)))


def network_environment(asked: Placement, offers: PlatformOffers) -> dict[str, str]:
    """Return the environment of collectives: which interface, and what NCCL must know of the pool's nodes."""
    pool = _pool(asked, offers)
    own = {"GLOO_SOCKET_IFNAME": interface(asked.network), "NCCL_SOCKET_IFNAME": interface(asked.network)}
    if pool is None or not asked.resources.visible_gpus:
        return own
    facts = instance_type(pool.instance_types[0]) if pool.instance_types else None
    return {**own, **nccl_environment(facts, asked.network, _rdma_kind(asked, pool))}


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
