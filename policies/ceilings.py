"""Rules about the cost and the number of GPUs of an environment when every pool is at its maximum size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from infra.cost import ACK_PRO_CNY, CostRow, add
from infra.instance_types import INSTANCE_TYPES
from policies.node_pools import CLUSTER, INSTANCE, NODE_POOL, has_gpus, is_spot, pool_name
from policies.rule import RuleConfig, StackFinding, StackRule, message
from policies.values import Unknown, Value, each, label, number, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.resources import Resource

_STANDARD = "ack.pro.small"


class CostCeiling(RuleConfig):
    """Configuration of `cost-ceiling`."""

    cny_per_hour: float | None = Field(default=None, gt=0)
    """Most that nodes and control planes may cost an hour, in CNY at list prices; no ceiling without it."""
    unpriced: tuple[str, ...] = ()
    """Resources that are allowed although their price is unknown, such as `pool train`."""


class GpuCeiling(RuleConfig):
    """Configuration of `gpu-ceiling`."""

    gpus: int | None = Field(default=None, ge=0)
    """Most GPUs, all pools at their maximum size; no ceiling without it."""


def most_nodes(resource: Resource) -> int | Unknown:
    """Return the most nodes that a pool, or an instance of its own, comes to."""
    if resource.type != NODE_POOL:
        return 1
    scaling = read(resource.properties, "scalingConfig")
    scales = read(scaling, "enable") is not False and scaling is not None
    size = number(read(scaling, "maxSize") if scales else read(resource.properties, "desiredSize"))
    return size if isinstance(size, Unknown) else int(size or 0)


def _types(resource: Resource) -> list[Value]:
    if resource.type == NODE_POOL:
        return each(read(resource.properties, "instanceTypes"))
    return [read(resource.properties, "instanceType")]


def _unknown(resource: Resource) -> Unknown | None:
    """Return the inputs that must be known before the size or the price of a resource is."""
    return next((value for value in (most_nodes(resource), *_types(resource)) if isinstance(value, Unknown)), None)


def _name(resource: Resource) -> str:
    return f"pool {pool_name(resource)}" if resource.type == NODE_POOL else f"instance {resource.name}"


def _highest_price(resource: Resource) -> float | None:
    """Return the highest hourly price of one node; None if it is not known."""
    limits = [number(read(limit, "priceLimit")) for limit in each(read(resource.properties, "spotPriceLimits"))]
    known_limits = [limit for limit in limits if isinstance(limit, float | int)]
    if is_spot(resource) and known_limits and len(known_limits) == len(_types(resource)) and _only_spot(resource):
        return max(known_limits)
    rows = [INSTANCE_TYPES.get(label(name)) for name in _types(resource)]
    prices = [None if row is None else row.price_cny_per_hour for row in rows]
    known = [price for price in prices if price is not None]
    return max(known) if known and len(known) == len(prices) else None


def _only_spot(pool: Resource) -> bool:
    share = ("onDemandBaseCapacity", "onDemandPercentageAboveBaseCapacity")
    nodes = [number(read(pool.properties, key)) or 0 for key in share]
    return read(pool.properties, "compensateWithOnDemand") in (None, False) and not any(nodes)


def cost_rows(resources: Sequence[Resource]) -> list[CostRow]:
    """Return the maximum hourly cost of nodes and control planes; sizes must be known."""
    rows: list[CostRow] = []
    for resource in resources:
        if resource.type in {NODE_POOL, INSTANCE}:
            most, price = most_nodes(resource), _highest_price(resource)
            assert isinstance(most, int)
            rows.append(CostRow(what=_name(resource), fewest=0, most=most, each_lowest=None, each_highest=price))
        elif resource.type == CLUSTER:
            standard = read(resource.properties, "clusterSpec") == _STANDARD
            price = ACK_PRO_CNY if standard else None
            rows.append(CostRow(what="ACK Pro control plane", fewest=1, most=1, each_lowest=price, each_highest=price))
    return rows


def _cost(resources: Sequence[Resource], config: CostCeiling) -> Iterator[StackFinding]:
    if config.cny_per_hour is None:
        return
    sized: list[Resource] = []
    for resource in resources:
        unknown = _unknown(resource) if resource.type in {NODE_POOL, INSTANCE} else None
        if unknown is not None:
            yield resource, unknown
        else:
            sized.append(resource)
    rows = cost_rows(sized)
    total = add(rows)
    if total.highest > config.cny_per_hour:
        most_expensive = sorted((row for row in rows if row.highest), key=lambda row: row.highest or 0, reverse=True)
        yield (
            None,
            message(
                "CNY an hour at maximum size",
                round(total.highest, 2),
                f"at most {config.cny_per_hour:g}: "
                + ", ".join(f"{row.what} {row.most} x {row.each_highest:g}" for row in most_expensive[:5]),
                "lower the pools' maximum, or have the ceiling raised",
            ),
        )
    for what in total.left_out_of_highest:
        if what not in config.unpriced:
            yield (
                None,
                message(
                    what,
                    None,
                    "has no known price, so the ceiling says nothing about it",
                    "use a priced type, or name it in `unpriced` of cost-ceiling",
                ),
            )


def _gpus(resources: Sequence[Resource], config: GpuCeiling) -> Iterator[StackFinding]:
    if config.gpus is None:
        return
    counts: dict[str, int] = {}
    for resource in resources:
        if resource.type not in {NODE_POOL, INSTANCE}:
            continue
        unknown, most = _unknown(resource), most_nodes(resource)
        if unknown is not None or isinstance(most, Unknown):
            yield resource, unknown or Unknown()
            continue
        names = [label(name) for name in _types(resource)]
        unlisted = [name for name in names if name not in INSTANCE_TYPES and has_gpus(name)]
        if unlisted:
            allowed = "has GPUs, but is not in infra/instance_types.py"
            yield resource, message("instance type", unlisted[0], allowed, "add its row, or use a type of the table")
        per_node = max((INSTANCE_TYPES[name].gpus for name in names if name in INSTANCE_TYPES), default=0)
        counts[_name(resource)] = most * per_node
    if sum(counts.values()) > config.gpus:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        yield (
            None,
            message(
                "GPUs at maximum size",
                sum(counts.values()),
                f"at most {config.gpus}: {listed}",
                "lower the pools' maximum, or have the ceiling raised",
            ),
        )


STACK_RULES = (
    StackRule(
        name="cost-ceiling",
        demand="Nodes and control planes cost no more an hour than the environment may.",
        severity="high",
        config=CostCeiling,
        check=_cost,
    ),
    StackRule(
        name="gpu-ceiling",
        demand="The environment has no more GPUs than it may.",
        severity="high",
        config=GpuCeiling,
        check=_gpus,
    ),
)
