"""What the node pools of a platform offer to workloads: plain data, derived from the settings alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import TypeAdapter, ValidationError

from infra.errors import RefusalError, choices
from infra.instance_types import INSTANCE_TYPES, InstanceType, RdmaKind, instance_type
from infra.settings.gpu import Mig, Mps, Sharing, TimeSlicing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infra.settings.cluster import SimulatedNodes
    from infra.settings.node_pools import NodePoolSettings
    from infra.settings.stack import Settings

POOL_LABEL = "athanor.dev/pool"
"""Node label with the pool's name; workloads that name a pool select nodes by it."""

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
_LINGJUN_TAINT = Taint(key="node-role.alibabacloud.com/lingjun", value="")


@dataclass(frozen=True, kw_only=True)
class PoolOffer:
    """What one pool offers. Where its instance types differ, the least that any of them has."""

    name: str
    role: Literal["system", "cpu", "gpu"]
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    """Zones its nodes can be in; empty where the platform does not know."""
    max_nodes: int
    gpus_per_node: int
    gpu_memory_gib: int
    """Memory of one GPU; 0 without GPUs."""
    shares_per_gpu: int
    """Pods that one GPU takes: its replicas or MIG instances, 1 where GPUs are whole, 0 where pods ask for GiB."""
    sharing: Sharing | None
    eni: Literal["shared", "exclusive"]
    exclusive_pods: int
    """Pods per node that get a network interface of their own; 0 where interfaces are shared."""
    rdma: RdmaKind
    """Kind of RDMA device that pods can ask for."""
    taints: tuple[Taint, ...]
    terway: bool
    """Whether the pool is ACK's, with Terway as its network."""

    @property
    def shares_per_node(self) -> int:
        """Pods of one share each that a node takes."""
        return self.gpus_per_node * self.shares_per_gpu

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
        missing = sorted(set(known) - set(data))
        if missing:
            raise RefusalError("pool", dict(data), f"lacks {', '.join(missing)}", "name a stack of the athanor project")
        values = cast("dict[str, Any]", _whole_numbers({name: data[name] for name in known}))
        try:
            values["sharing"] = _SHARING.validate_python(values["sharing"])
        except ValidationError:
            raise RefusalError("pool.sharing", data["sharing"], "is unknown to this code", "update athanor") from None
        values["taints"] = tuple(Taint(**taint) for taint in values["taints"])
        for name in ("instance_types", "zones"):
            values[name] = tuple(values[name])
        return cls(**values)


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
        return tuple(_simulated_offer(group) for group in settings.cluster.simulated_nodes)
    return tuple(_ack_offer(pool, pool.zones or settings.alicloud.zones) for pool in settings.alicloud.node_pools)


def simulated_pool_name(type_name: str) -> str:
    """Return the name of the pool that simulated nodes of a type form: `ecs.gn8v.4xlarge` gives `gn8v-4xlarge`."""
    return type_name.removeprefix("ecs.").replace(".", "-")


def pool_taints(pool: NodePoolSettings) -> tuple[Taint, ...]:
    """Return the taints of a pool's nodes: those of the settings, and on GPU nodes the one that keeps others away."""
    own = tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints)
    gpu = () if pool.role != "gpu" or any(taint.key == GPU_TAINT.key for taint in own) else (GPU_TAINT,)
    return (*gpu, *own)


def _ack_offer(pool: NodePoolSettings, zones: tuple[str, ...]) -> PoolOffer:
    types = [instance_type(name) for name in pool.instance_types]
    lingjun = pool.lingjun is not None
    return PoolOffer(
        name=pool.name,
        role=pool.role,
        instance_types=pool.instance_types,
        zones=zones,
        max_nodes=pool.maximum,
        gpus_per_node=min((facts.gpus for facts in types), default=0),
        gpu_memory_gib=min((facts.gpu_memory_gib for facts in types), default=0),
        shares_per_gpu=_shares_per_gpu(pool.gpu.sharing, types),
        sharing=pool.gpu.sharing,
        eni=pool.eni,
        exclusive_pods=_exclusive_pods(pool, types),
        rdma=_rdma(pool, types),
        taints=(*pool_taints(pool), *([_LINGJUN_TAINT] if lingjun else [])),
        terway=True,
    )


def _simulated_offer(group: SimulatedNodes) -> PoolOffer:
    facts = instance_type(group.instance_type)
    return PoolOffer(
        name=simulated_pool_name(group.instance_type),
        role="gpu",
        instance_types=(group.instance_type,),
        zones=(),
        max_nodes=group.count,
        gpus_per_node=facts.gpus,
        gpu_memory_gib=facts.gpu_memory_gib,
        shares_per_gpu=1,
        sharing=None,
        eni="shared",
        exclusive_pods=0,
        rdma="none",
        taints=(SIMULATED_TAINT, GPU_TAINT),
        terway=False,
    )


def _shares_per_gpu(sharing: Sharing | None, types: Sequence[InstanceType]) -> int:
    if sharing is None:
        return 1
    if isinstance(sharing, TimeSlicing | Mps):
        return sharing.replicas
    if isinstance(sharing, Mig):
        return min(mig_instances(facts, sharing.profile) for facts in types)
    return 0


def mig_instances(facts: InstanceType, profile: str) -> int:
    """Return how many MIG instances of a profile one GPU of an instance type holds.

    Raises:
        RefusalError: its GPUs cannot be split so.
    """
    profiles: Mapping[str, int] = facts.gpu.mig_profiles if facts.gpu else {}
    found = profiles.get(profile)
    if found is None:
        fix = choices(profile, profiles) if profiles else "use time_slicing or mps, or leave sharing out"
        raise RefusalError("gpu.sharing.profile", profile, f"the GPUs of {facts.name} have no such MIG profile", fix)
    return found


def _exclusive_pods(pool: NodePoolSettings, types: Sequence[InstanceType]) -> int:
    if pool.eni != "exclusive":
        return 0
    return min((facts.node_pods("exclusive", rdma=pool.rdma) for facts in types), default=0)


def _rdma(pool: NodePoolSettings, types: Sequence[InstanceType]) -> RdmaKind:
    if not pool.rdma:
        return "none"
    if pool.lingjun is not None:
        return "lingjun"
    for facts in types:
        if facts.rdma == "none":
            able = sorted(row.name for row in INSTANCE_TYPES.values() if row.rdma == "erdma" and row.gpus == facts.gpus)
            fix = f"use types such as {', '.join(able[:3])}, or leave rdma out" if able else "leave rdma out"
            raise RefusalError(f"node_pools.{pool.name}.rdma", pool.rdma, f"{facts.name} has no RDMA interface", fix)
    return "erdma"
