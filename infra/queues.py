"""Volcano queues: each one's deserved, guaranteed and maximum resources, from its settings and the node pools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.errors import RefusalError, choices
from infra.kubernetes.quantities import quantity_value
from infra.pool_resources import CPU, MEMORY, Amounts, as_quantities, fraction_of, pool_amounts, scarce_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from infra.manifests import Manifest
    from infra.offers import PoolOffer
    from infra.settings.scheduling import QueueSettings

_ANY_NODE = frozenset({CPU, MEMORY, "pods", "ephemeral-storage"})
"""Resources of every node, whether a pool is known to have them or not."""


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """The resources of one queue, as Kubernetes quantities by resource name; a name that is missing is not limited."""

    deserved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its share: others may use it while it is idle, and lose it when the queue wants it back."""
    guarantee: Mapping[str, str] = field(default_factory=dict[str, str])
    """SweepFolder for it alone, idle or not."""
    capability: Mapping[str, str] = field(default_factory=dict[str, str])
    """The most that it can use."""


def queue_limits(queues: Sequence[QueueSettings], pools: Sequence[PoolOffer]) -> tuple[QueueLimits, ...]:
    """Return the limits of each queue.

    Shares and hard limits are of what the pools can ever hold; guarantees are of the nodes that are always there. A
    guarantee is taken off what other queues may use, so one on nodes that do not exist yet would keep the others from
    those that do, and no autoscaler would add any: it sees room for them.

    Args:
        queues: The stack's queues.
        pools: Its node pools; none where it does not know the nodes. Those of role `system` are not shared out.

    Raises:
        RefusalError: a percentage of unknown pools or of nothing, a resource that no pool has, more than there is, or a
            guarantee above the hard limit.
    """
    shared = [pool for pool in pools if pool.role != "system"]
    unknown = [pool.name for pool in shared if not pool.instance_types]
    counted = [] if unknown else shared
    fewest, most = pool_amounts(counted, "fewest"), pool_amounts(counted, "most")
    for queue in queues:
        _check_percentages(queue, unknown, fewest, most)
        _check_names(queue, most)
    if most:
        _check_sum(queues, "guarantee", lambda queue: queue.guarantee, fewest, "the pools at their minimum")
        _check_sum(queues, "deserved", lambda queue: queue.deserved, most, "the pools at their maximum")
    weights = sum(queue.weight for queue in queues)
    return tuple(_limits(queue, weights, fewest, most) for queue in queues)


def _limits(queue: QueueSettings, weights: int, fewest: Amounts, most: Amounts) -> QueueLimits:
    guarantee = queue.guarantee or as_quantities(
        fraction_of(fewest, scarce_names(most), queue.guaranteed_percent or 0, 100)
    )
    capability = queue.capability or as_quantities(fraction_of(most, most, queue.maximum_percent or 0, 100))
    _check_below(queue, "guarantee", guarantee, capability)
    _check_below(queue, "deserved", queue.deserved, capability)
    by_weight = as_quantities(fraction_of(most, scarce_names(most), queue.weight, weights)) if most else {}
    # Volcano's own admission, where it runs, wants guarantee <= deserved <= capability.
    limited = {name: _lower(amount, capability.get(name)) for name, amount in (queue.deserved or by_weight).items()}
    raised = {name: _higher(amount, limited.get(name)) for name, amount in guarantee.items()}
    return QueueLimits(deserved={**limited, **raised}, guarantee=guarantee, capability=capability)


def _lower(one: str, other: str | None) -> str:
    return one if other is None else min(one, other, key=quantity_value)


def _higher(one: str, other: str | None) -> str:
    return one if other is None else max(one, other, key=quantity_value)


def _key(queue: QueueSettings, name: str) -> str:
    return f"athanor:scheduling.queues[{queue.name}].{name}"


def _check_percentages(queue: QueueSettings, unknown: Sequence[str], fewest: Amounts, most: Amounts) -> None:
    alternatives = (("guaranteed_percent", "guarantee"), ("maximum_percent", "capability"))
    for name, instead in alternatives:
        percent: int | None = getattr(queue, name)
        if percent and not most:
            limit = (
                f"the resources of pool {unknown[0]!r} are not known"
                if unknown
                else "the platform does not know its node pools"
            )
            raise RefusalError(_key(queue, name), percent, limit, f"set {instead} by resource name")
    guaranteed, maximum = queue.guaranteed_percent, queue.maximum_percent
    if guaranteed and not fraction_of(fewest, scarce_names(most), guaranteed, 100):
        held = as_quantities({name: fewest.get(name, 0) for name in scarce_names(most)})
        limit = f"is less than one unit of the resources at the pools' minimum: {held}"
        fix = "raise a pool's minimum, or omit it: `weight` gives a share that is reclaimed when needed"
        raise RefusalError(_key(queue, "guaranteed_percent"), guaranteed, limit, fix)
    for resource, amount in most.items():
        # A share of nothing, as in pools of maximum 0, is nothing: that does not limit the queue.
        if maximum and 0 < amount * maximum < 100:
            limit = f"is less than one of {amount} {resource}"
            raise RefusalError(_key(queue, "maximum_percent"), maximum, limit, f"choose {-(-100 // amount)} or more")


def _check_names(queue: QueueSettings, most: Amounts) -> None:
    if not most:
        return
    for name in ("deserved", "guarantee", "capability"):
        for resource in getattr(queue, name):
            if resource not in most and resource not in _ANY_NODE:
                limit = f"no pool has the resource {resource!r}"
                raise RefusalError(_key(queue, name), getattr(queue, name), limit, choices(resource, most))


def _check_below(queue: QueueSettings, name: str, amounts: Mapping[str, str], capability: Mapping[str, str]) -> None:
    for resource, amount in amounts.items():
        most = capability.get(resource)
        if most is not None and quantity_value(amount) > quantity_value(most):
            limit = f"{resource} is above the queue's hard limit of {most}"
            raise RefusalError(_key(queue, name), dict(amounts), limit, f"lower {name}, or raise the limit")


def _check_sum(
    queues: Sequence[QueueSettings],
    name: str,
    amounts: Callable[[QueueSettings], Mapping[str, str]],
    held: Amounts,
    where: str,
) -> None:
    there = as_quantities(held)
    for resource in sorted({resource for queue in queues for resource in amounts(queue)} - (_ANY_NODE - {CPU, MEMORY})):
        asked: Fraction = sum((quantity_value(amounts(queue).get(resource, "0")) for queue in queues), start=_NOTHING)
        if asked > quantity_value(there.get(resource, "0")):
            asked_by_queue = {queue.name: amounts(queue)[resource] for queue in queues if resource in amounts(queue)}
            limit = f"the total exceeds the {there.get(resource, '0')} that {where} hold"
            fix = f"lower {name} of some queue, or give a pool more nodes"
            raise RefusalError(f"athanor:scheduling.queues[].{name}.{resource}", asked_by_queue, limit, fix)


_NOTHING = quantity_value("0")


def queue_manifest(queue: QueueSettings, limits: QueueLimits) -> Manifest:
    """Return a Volcano Queue."""
    spec: Manifest = {"weight": queue.weight, "reclaimable": queue.reclaimable}
    if limits.deserved:
        spec["deserved"] = dict(limits.deserved)
    if limits.guarantee:
        spec["guarantee"] = {"resource": dict(limits.guarantee)}
    if limits.capability:
        spec["capability"] = dict(limits.capability)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": queue.name},
        "spec": spec,
    }
