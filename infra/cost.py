"""The hourly cost of an environment, as far as its prices are known, computed from its settings alone.

Nodes: infra/instance_types.py, which names the source and the day. What else has a row has the source there. A stack's
settings may have prices of their own (infra/settings/stack.py).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.instance_types import INSTANCE_TYPES, PRICES_AS_OF
from infra.prices import Prices, layered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.node_pools import NodePoolSettings, SpotSettings

ACK_PRO_CNY = 0.64
"""Fee of one ACK Pro cluster (help.aliyun.com, "ACK托管和专有集群计费说明", read in November 2026). It is the standard
control plane's; a provisioned one (ack.pro.xlarge and up) is billed by its size, and that page names no price."""
_NAT_USD, _ADDRESS_USD = 0.034, 0.003
"""What the international site asks for an hour in mainland China (alibabacloud.com, "Billing of Internet NAT gateways"
and "Pay-as-you-go" of EIP, read in November 2026): a hint and no price, for the two sites' lists do not convert."""
NOT_INCLUDED = (
    "system and data disks of the nodes",
    "NAS or CPFS: by content or by capacity",
    "OSS: by content and requests",
    "traffic to the internet, and the NAT gateway's capacity units",
    "control-plane and audit logs in SLS, and the events of nodes that ack-node-problem-detector sends there",
    "keys in KMS",
    "load balancers of Services that users create",
    "Lingjun machines and Container Registry Enterprise, which are prepaid",
    "discounts, subscriptions, savings plans and taxes",
)
"""Items that are billed by use, or whose price is unknown."""


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """One thing that is paid by the hour; its price is None where none is known, which is not 0."""

    what: str
    fewest: int
    most: int
    each_lowest: float | None
    """Lowest price of one."""
    each_highest: float | None
    """Highest price of one."""
    note: str = ""

    @property
    def lowest(self) -> float | None:
        """Cost of the fewest nodes; None where that is not known."""
        return _times(self.fewest, self.each_lowest)

    @property
    def highest(self) -> float | None:
        """Cost of the most nodes; None where that is not known."""
        return _times(self.most, self.each_highest)


@dataclass(frozen=True, kw_only=True)
class CostSum:
    """All rows together. A bound is only as good as the list of what it leaves out."""

    lowest: float
    highest: float
    left_out_of_lowest: tuple[str, ...]
    """Rows that cost something at the fewest, and nobody knows what."""
    left_out_of_highest: tuple[str, ...]
    """Rows that cost something at the most, and nobody knows what."""


def list_prices() -> Prices:
    """Return the built-in list: what Alibaba Cloud asks, as far as this project knows it."""
    nodes = {row.name: row.price_cny_per_hour for row in INSTANCE_TYPES.values() if row.price_cny_per_hour is not None}
    return Prices(
        as_of=dt.date.fromisoformat(PRICES_AS_OF),
        per_hour={**nodes, "ack.pro.small": ACK_PRO_CNY},
        source="Alibaba Cloud's list, pay-as-you-go, mainland regions",
    )


def stack_prices(own: Prices | None) -> Prices:
    """Return the prices for a stack: the prices of its settings, if it has any, over the built-in list."""
    return list_prices() if own is None else layered(own, list_prices(), called="the stack's settings")


def hourly_cost(settings: AlicloudSettings, prices: Prices | None = None) -> tuple[CostRow, ...]:
    """Return the hourly cost of an environment: each pool from its fewest to its most nodes, then what is fixed.

    Args:
        settings: the environment's.
        prices: what it costs, such as `stack_prices`; by default the built-in list, in CNY.
    """
    table = prices or list_prices()
    return (*(_pool_row(pool, table) for pool in settings.node_pools), *_fixed_rows(settings, table))


def add(rows: Iterable[CostRow]) -> CostSum:
    """Add up what is known, and name what is not."""
    listed = tuple(rows)
    return CostSum(
        lowest=sum(row.lowest or 0.0 for row in listed),
        highest=sum(row.highest or 0.0 for row in listed),
        left_out_of_lowest=tuple(row.what for row in listed if row.lowest is None),
        left_out_of_highest=tuple(row.what for row in listed if row.highest is None),
    )


def _times(count: int, price: float | None) -> float | None:
    if not count:
        return 0.0
    return None if price is None else count * price


def _pool_row(pool: NodePoolSettings, prices: Prices) -> CostRow:
    lowest, highest = node_prices([prices.of(name) for name in pool.instance_types], pool.spot)
    return CostRow(
        what=f"pool {pool.name}",
        fewest=pool.minimum,
        most=pool.maximum,
        each_lowest=lowest,
        each_highest=highest,
        note=_pool_note(pool),
    )


def node_prices(prices: Sequence[float | None], spot: SpotSettings | None) -> tuple[float | None, float | None]:
    """Return the lowest and the highest price of one node of a pool: any of its types may be the one in stock.

    Args:
        prices: price of each of the pool's instance types without a discount for spot nodes.
        spot: the pool's spot settings, if it has spot nodes.
    """
    known = [price for price in prices if price is not None]
    listed = (min(known), max(known)) if known and len(known) == len(prices) else (None, None)
    if spot is None:
        return listed
    # The market makes a spot price; only its upper bound is ours to know.
    return None, _highest_spot_price(spot, listed[1])


def _highest_spot_price(spot: SpotSettings, highest_listed: float | None) -> float | None:
    on_demand_too = spot.on_demand_base or spot.on_demand_percentage_above_base or spot.on_demand_when_short
    if on_demand_too or not spot.price_limits:
        return highest_listed
    return max(spot.price_limits.values())


def _pool_note(pool: NodePoolSettings) -> str:
    if pool.lingjun:
        return "Lingjun: prepaid"
    types = ", ".join(pool.instance_types)
    if pool.spot is None:
        return types
    return f"{types}; spot"


def _fixed_rows(settings: AlicloudSettings, prices: Prices) -> list[CostRow]:
    edition = settings.kubernetes.edition
    rows = [
        _one("ACK Pro control plane", prices.of(edition), edition),
        _one("load balancer of the API server", None, "CLB, created by ACK; by usage"),
    ]
    if settings.kubernetes.public_api_server:
        rows.append(_one("address of the API server", None, "EIP, created by ACK"))
    if settings.network.nat_gateway:
        rows.append(_one("NAT gateway", None, _hint(_NAT_USD)))
        rows.append(_one("address of the NAT gateway", None, _hint(_ADDRESS_USD)))
    return rows


def _hint(dollars: float) -> str:
    return f"USD {dollars} on the international site, mainland China"


def _one(what: str, price: float | None, note: str) -> CostRow:
    return CostRow(what=what, fewest=1, most=1, each_lowest=price, each_highest=price, note=note)


PRICES = (
    f"Prices of nodes: Alibaba Cloud's list of {PRICES_AS_OF}, pay-as-you-go, the commonest one of the mainland regions"
    f" (infra/instance_types.py). ACK Pro: CNY {ACK_PRO_CNY} (infra/cost.py). An estimate: other regions and later days"
    " differ, and the bill decides."
)
"""Origin of the built-in list's prices, as text for every place that displays them."""


def prices_note(prices: Prices) -> str:
    """Return where a table's prices come from, as one line for reports; PRICES for the built-in list."""
    if prices == list_prices():
        return PRICES
    return f"Prices of {prices.as_of}, in {prices.currency} ({prices.source}). An estimate: the bill decides."
