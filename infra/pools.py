"""What the node pools of a platform offer to workloads: plain data, derived from the settings alone."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import TypeAdapter, ValidationError

from infra.errors import RefusalError, choices
from infra.gpu.sharing import shares_per_gpu
from infra.instance_types import RdmaKind, instance_type
from infra.priorities import priority_class_name
from infra.settings.gpu import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infra.namespaces import PodSecurity
    from infra.settings.cluster import SimulatedNodes
    from infra.settings.node_pools import NodePoolSettings
    from infra.settings.stack import Settings

POOL_LABEL = "athanor.dev/pool"
"""Node label with the pool's name; workloads that name a pool select nodes by it."""
ZONE_LABEL = "topology.kubernetes.io/zone"
"""Kubernetes' own node label with the zone's name."""

_SHARING: TypeAdapter[Sharing | None] = TypeAdapter(Sharing | None)


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A taint that every node of a pool carries."""

    key: str
    value: str
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"

    def toleration(self) -> dict[str, str]:
        """Return the toleration that lets a pod onto nodes with this taint, whatever its value."""
        return {"key": self.key, "operator": "Exists", "effect": self.effect}


GPU_TAINT = Taint(key="nvidia.com/gpu", value="present")
"""On every GPU node: a GPU that waits for its job must not be blocked by pods that need none."""
SIMULATED_TAINT = Taint(key="kwok.x-k8s.io/node", value="fake")
"""On every simulated node: a real pod must not land there by accident."""
_SIMULATED_ZONES = ("simulated-a", "simulated-b")
_LINGJUN_TAINT = Taint(key="node-role.alibabacloud.com/lingjun", value="")


@dataclass(frozen=True, kw_only=True)
class PoolOffer:
    """What one pool offers; its instance types are alike."""

    name: str
    role: Literal["system", "cpu", "gpu"]
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    """Zones its nodes can be in; empty where the platform does not know."""
    max_nodes: int
    min_nodes: int = 0
    """Nodes that are always there; 0 where a stack of an earlier release did not tell."""
    gpus_per_node: int | None
    """None for Lingjun machines: their type is not ours to choose, and no table of ours knows them."""
    gpu_memory_gib: int
    """Memory of one GPU; 0 without GPUs and where it is not known."""
    shares_per_gpu: int
    """Pods that one GPU takes: its replicas or MIG instances, 1 where GPUs are whole, 0 where pods ask for GiB."""
    sharing: Sharing | None
    eni: Literal["shared", "exclusive"]
    exclusive_pods: int | None
    """Pods per node that get a network interface of their own; 0 where interfaces are shared, None where not known."""
    rdma: RdmaKind
    """Kind of RDMA device that pods can ask for."""
    taints: tuple[Taint, ...]
    terway: bool
    """Whether the pool is ACK's, with Terway as its network."""

    def to_dict(self) -> dict[str, Any]:
        """Return the offer as JSON data, for the stack's outputs."""
        return {**asdict(self), "sharing": self.sharing.model_dump() if self.sharing else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the offer that `to_dict` wrote, perhaps in a newer version: keys it does not know are ignored.

        Raises:
            RefusalError: a key is missing, or the sharing is of a kind that this code does not know.
        """
        known = {field.name: field for field in fields(cls)}
        missing = sorted(name for name in set(known) - set(data) if known[name].default is MISSING)
        if missing:
            raise RefusalError("pool", dict(data), f"lacks {', '.join(missing)}", "name a stack of the athanor project")
        values = cast("dict[str, Any]", _whole_numbers({name: data[name] for name in known if name in data}))
        try:
            values["sharing"] = _SHARING.validate_python(values["sharing"])
        except ValidationError:
            raise RefusalError("pool.sharing", data["sharing"], "is unknown to this code", "update athanor") from None
        values["taints"] = tuple(Taint(**taint) for taint in values["taints"])
        for name in ("instance_types", "zones"):
            values[name] = tuple(values[name])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class PlatformOffers:
    """What a platform offers to the pods of workloads; part of its outputs."""

    pools: tuple[PoolOffer, ...] = ()
    """Its node pools; empty where the cluster is somebody else's."""
    pod_networkings: tuple[str, ...] = ()
    """Names of its PodNetworking resources."""
    pod_security: PodSecurity = "restricted"
    """Pod Security level of the workloads' namespace."""
    queues: tuple[str, ...] = ()
    """Names of its queues; empty where they are not known."""
    priority_classes: tuple[str, ...] = ()
    """Names of its PriorityClasses for workloads; empty where they are not known."""
    topology: bool = False
    """Whether its HyperNodes tell which nodes are near each other."""
    clean_up: bool = False
    """Whether it removes the pods of finished jobs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the offers as JSON data, for the stack's outputs."""
        return {
            "pools": [pool.to_dict() for pool in self.pools],
            "pod_networkings": list(self.pod_networkings),
            "pod_security": self.pod_security,
            "queues": list(self.queues),
            "priority_classes": list(self.priority_classes),
            "topology": self.topology,
            "clean_up": self.clean_up,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the offers that `to_dict` wrote.

        Raises:
            RefusalError: a pool is not readable; see `PoolOffer.from_dict`.
        """
        return cls(
            pools=tuple(PoolOffer.from_dict(pool) for pool in data["pools"]),
            pod_networkings=tuple(data["pod_networkings"]),
            pod_security=data["pod_security"],
            queues=tuple(data.get("queues", ())),
            priority_classes=tuple(data.get("priority_classes", ())),
            topology=data.get("topology", False),
            clean_up=data.get("clean_up", False),
        )


NO_OFFERS = PlatformOffers()
"""Of a cluster whose nodes the platform does not know."""


def _whole_numbers(value: object) -> object:
    """Numbers come back from a stack's state as floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in cast("Iterable[object]", value)]
    return value


def pool_named(name: str, offers: Sequence[PoolOffer]) -> PoolOffer:
    """Return the offer of a pool.

    Raises:
        RefusalError: the platform has no such pool; the message names the near ones.
    """
    for offer in offers:
        if offer.name == name:
            return offer
    raise RefusalError("pool", name, "the platform has no pool of that name", choices(name, [o.name for o in offers]))


def pool_offers(settings: Settings) -> tuple[PoolOffer, ...]:
    """Return what every pool of a stack offers; a cluster that exists already offers its simulated nodes alone.

    Raises:
        RefusalError: an instance type is unknown, or cannot be split into the MIG profile.
    """
    if settings.alicloud is None:
        return tuple(_simulated_offer(group, settings.gpu.sharing) for group in settings.cluster.simulated_nodes)
    return tuple(_ack_offer(pool, pool.zones or settings.alicloud.zones) for pool in settings.alicloud.node_pools)


def platform_offers(settings: Settings) -> PlatformOffers:
    """Return what a stack's platform offers."""
    networkings = settings.alicloud.pod_networkings if settings.alicloud else ()
    pools = pool_offers(settings)
    priorities = settings.scheduling.priority_classes
    return PlatformOffers(
        pools=pools,
        pod_networkings=tuple(networking.name for networking in networkings),
        pod_security=settings.pod_security,
        queues=tuple(queue.name for queue in settings.scheduling.queues),
        priority_classes=tuple(priority_class_name(settings.namespace, priority.name) for priority in priorities),
        topology=settings.scheduling.install and any(pool.zones for pool in pools),
        clean_up=settings.clean_up.enabled,
    )


def simulated_pool_name(type_name: str) -> str:
    """Return the name of the pool that simulated nodes of a type form: `ecs.gn8v.4xlarge` gives `gn8v-4xlarge`."""
    return type_name.removeprefix("ecs.").replace(".", "-")


def simulated_zones(count: int) -> tuple[str, ...]:
    """Return the zones that so many simulated nodes of a type are in, in turn."""
    return _SIMULATED_ZONES[:count]


def pool_taints(pool: NodePoolSettings) -> tuple[Taint, ...]:
    """Return the taints of a pool's nodes: those of the settings, and on GPU nodes the one that keeps others away."""
    own = tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints)
    gpu = () if pool.role != "gpu" or any(taint.key == GPU_TAINT.key for taint in own) else (GPU_TAINT,)
    return (*gpu, *own)


def _ack_offer(pool: NodePoolSettings, zones: tuple[str, ...]) -> PoolOffer:
    first = pool.facts[0] if pool.facts else None
    exclusive = pool.eni == "exclusive"
    rdma: RdmaKind = "lingjun" if pool.lingjun else first.rdma if first else "none"
    return PoolOffer(
        name=pool.name,
        role=pool.role,
        instance_types=pool.instance_types,
        zones=zones,
        max_nodes=pool.maximum,
        min_nodes=pool.minimum,
        gpus_per_node=first.gpus if first else None,
        gpu_memory_gib=first.gpu_memory_gib if first else 0,
        shares_per_gpu=shares_per_gpu(pool.gpu.sharing, first),
        sharing=pool.gpu.sharing,
        eni=pool.eni,
        exclusive_pods=min((f.pods("exclusive", rdma=pool.rdma) for f in pool.facts), default=None) if exclusive else 0,
        rdma=rdma if pool.rdma else "none",
        taints=(*pool_taints(pool), *([_LINGJUN_TAINT] if pool.lingjun else [])),
        terway=True,
    )


def _simulated_offer(group: SimulatedNodes, sharing: Sharing | None) -> PoolOffer:
    facts = instance_type(group.instance_type)
    shared = sharing if facts.gpus else None
    return PoolOffer(
        name=simulated_pool_name(group.instance_type),
        role="gpu" if facts.gpus else "cpu",
        instance_types=(group.instance_type,),
        zones=simulated_zones(group.count),
        max_nodes=group.count,
        min_nodes=group.count,
        gpus_per_node=facts.gpus,
        gpu_memory_gib=facts.gpu_memory_gib,
        shares_per_gpu=shares_per_gpu(shared, facts),
        sharing=shared,
        eni="shared",
        exclusive_pods=0,
        rdma="none",
        taints=(SIMULATED_TAINT, GPU_TAINT) if facts.gpus else (SIMULATED_TAINT,),
        terway=False,
    )
