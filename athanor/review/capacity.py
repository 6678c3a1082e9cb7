"""Nodes, GPUs and money before and after a change, from the inputs of node pools and clusters.

The arithmetic, and what is left out of it, are those of infra/cost.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from athanor.review.tolerant import as_count, as_list, as_mapping, as_text, at
from infra.cost import CostRow, node_prices
from infra.instance_types import INSTANCE_TYPES
from infra.settings.node_pools import SpotSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from athanor.review.changes import Change
    from athanor.review.prices import Prices

NODE_POOL = "alicloud:cs/nodePool:NodePool"
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
HOURS_A_MONTH = 730
"""365 days of 24 hours, by 12."""
_WITHOUT_A_PRICE = {
    "alicloud:vpc/natGateway:NatGateway": "NAT gateway",
    "alicloud:ecs/eipAddress:EipAddress": "public address",
    "alicloud:nas/fileSystem:FileSystem": "file system",
    "alicloud:oss/bucket:Bucket": "bucket",
    "alicloud:slb/applicationLoadBalancer:ApplicationLoadBalancer": "load balancer",
    "alicloud:ecs/ecsDisk:EcsDisk": "disk",
}
"""Resources that are billed by the hour or by use, without a price in the table."""
_SPOT = {"SpotWithPriceLimit", "SpotAsPriceGo"}


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A node pool as far as its size and its costs go."""

    fewest: int
    most: int
    types: tuple[str, ...]
    spot: SpotSettings | None
    prepaid: bool = False

    @property
    def gpus_per_node(self) -> int | None:
        """GPUs of one node, the most of any of its types; None where a type is unknown."""
        rows = [INSTANCE_TYPES.get(name) for name in self.types]
        known = [row.gpus for row in rows if row]
        return max(known) if known and len(known) == len(rows) else None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing whose size or price changes; None on the side on which it does not exist."""

    what: str
    before: CostRow | None
    after: CostRow | None
    pool_before: Pool | None = None
    pool_after: Pool | None = None


@dataclass(frozen=True, kw_only=True)
class CostChange:
    """By how much the price of an hour changes."""

    per_hour: float
    """Change for the rows whose prices are known."""
    left_out: tuple[str, ...]
    """The others, with both of their sides: one of them alone would be a saving or a cost that nobody has."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """All rows of a stack, and their sums."""

    rows: tuple[Row, ...]

    def costs(self) -> tuple[CostChange, CostChange]:
        """Return by how much the price of an hour changes, at the minimum and at the maximum."""
        return self._cost(lambda row: row.lowest), self._cost(lambda row: row.highest)

    def _cost(self, price: Callable[[CostRow], float | None]) -> CostChange:
        change, left_out = 0.0, set[str]()
        for row in self.rows:
            before = price(row.before) if row.before else 0.0
            after = price(row.after) if row.after else 0.0
            if before is None or after is None:
                left_out.add(row.what)
            else:
                change += after - before
        return CostChange(per_hour=change, left_out=tuple(sorted(left_out)))

    def nodes(self) -> tuple[int, int]:
        """Return by how many nodes the minimum and the maximum change."""
        pairs = [(row.pool_before, row.pool_after) for row in self.rows]
        return (
            sum((after.fewest if after else 0) - (before.fewest if before else 0) for before, after in pairs),
            sum((after.most if after else 0) - (before.most if before else 0) for before, after in pairs),
        )

    def gpus(self) -> tuple[int, int] | None:
        """Return by how many GPUs the minimum and the maximum change; None where an instance type is unknown."""
        fewest = most = 0
        for row in self.rows:
            for pool, sign in ((row.pool_before, -1), (row.pool_after, 1)):
                if pool is None or not pool.most:
                    continue
                if pool.gpus_per_node is None:
                    return None
                fewest += sign * pool.fewest * pool.gpus_per_node
                most += sign * pool.most * pool.gpus_per_node
        return fewest, most


def capacity(changes: Sequence[Change], prices: Prices) -> Capacity:
    """Return the effect of a stack's changes on nodes and costs; an identical replacement has none."""
    rows = [row for change in changes if (row := _row(change, prices))]
    return Capacity(rows=tuple(sorted(rows, key=lambda row: row.what)))


def pool_of(inputs: Mapping[str, object]) -> Pool | None:
    """Return the pool that a NodePool's inputs declare; None where its size is not known yet."""
    if not inputs:
        return None
    scaling = as_mapping(inputs.get("scalingConfig"))
    desired = as_count(inputs.get("desiredSize"))
    scaled = scaling.get("enable") is not False and bool(scaling)
    fewest = as_count(scaling.get("minSize")) if scaled else desired
    most = as_count(scaling.get("maxSize")) if scaled else desired
    if fewest is None or most is None:
        return None
    types = tuple(name for name in as_list(inputs.get("instanceTypes")) if isinstance(name, str))
    return Pool(
        fewest=fewest, most=most, types=types, spot=_spot(inputs), prepaid=bool(as_mapping(inputs.get("efloNodeGroup")))
    )


def _spot(inputs: Mapping[str, object]) -> SpotSettings | None:
    if as_text(inputs.get("spotStrategy")) not in _SPOT:
        return None
    limits = {
        as_text(at(limit, "instanceType")): as_text(at(limit, "priceLimit"))
        for limit in as_list(inputs.get("spotPriceLimits"))
    }
    try:
        return SpotSettings(
            price_limits={name: float(limit) for name, limit in limits.items() if name},
            on_demand_base=as_count(inputs.get("onDemandBaseCapacity")) or 0,
            on_demand_percentage_above_base=as_count(inputs.get("onDemandPercentageAboveBaseCapacity")) or 0,
            on_demand_when_short=inputs.get("compensateWithOnDemand") is True,
        )
    except (ValidationError, ValueError):  # a limit that is not a number, or is not known yet
        return SpotSettings()


def _row(change: Change, prices: Prices) -> Row | None:
    if change.kind == "forgotten":
        return None
    if change.type == NODE_POOL:
        return _pool_row(change, prices)
    if change.type == CLUSTER:
        before, after = (_edition(inputs, prices) for inputs in (change.before, change.after))
        return None if before == after else Row(what="control plane", before=before, after=after)
    name = _WITHOUT_A_PRICE.get(change.type)
    if name is None or change.kind not in {"created", "deleted"}:
        return None
    what = f"{name} {change.name}"
    row = CostRow(what=what, fewest=1, most=1, each_lowest=None, each_highest=None)
    created = change.kind == "created"
    return Row(what=what, before=None if created else row, after=row if created else None)


def _pool_row(change: Change, prices: Prices) -> Row | None:
    before, after = pool_of(change.before), pool_of(change.after)
    if before == after:
        return None
    what = f"pool {change.name}"
    if (change.before and before is None) or (change.after and after is None):
        unknown = CostRow(what=what, fewest=1, most=1, each_lowest=None, each_highest=None)
        return Row(what=what, before=unknown, after=unknown)
    return Row(
        what=what,
        before=_priced(what, before, prices),
        after=_priced(what, after, prices),
        pool_before=before,
        pool_after=after,
    )


def _priced(what: str, pool: Pool | None, prices: Prices) -> CostRow | None:
    if pool is None:
        return None
    lowest, highest = (None, None) if pool.prepaid else node_prices([prices.of(name) for name in pool.types], pool.spot)
    return CostRow(what=what, fewest=pool.fewest, most=pool.most, each_lowest=lowest, each_highest=highest)


def _edition(inputs: Mapping[str, object], prices: Prices) -> CostRow | None:
    if not inputs:
        return None
    edition = as_text(inputs.get("clusterSpec"))
    price = prices.of(edition)
    return CostRow(what="control plane", fewest=1, most=1, each_lowest=price, each_highest=price, note=edition)
