"""The hourly price of a platform's GPUs, where the list prices of its nodes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.cost import node_prices
from infra.instance_types import INSTANCE_TYPES

if TYPE_CHECKING:
    from infra.offers import PlatformOffers, PoolOffer


def gpu_prices(offers: PlatformOffers, pool: str | None) -> tuple[float, float] | None:
    """Return one GPU's part of its node's list price, from the cheapest to the dearest pool that has GPUs.

    Args:
        offers: What the platform's pools are.
        pool: The only one that counts; None: all of them.

    Returns:
        CNY per hour, lowest and highest; None where no price is known.
    """
    pools = [each for each in offers.pools if each.gpus_per_node and pool in {None, each.name}]
    shares = [share for each in pools for share in _shares(each)]
    return (min(shares), max(shares)) if shares else None


def amount(lowest: float, highest: float) -> str:
    """Return an amount of money, or both ends of its range."""
    low, high = f"{lowest:,.2f}", f"{highest:,.2f}"
    return low if low == high else f"{low} to {high}"


def _shares(pool: PoolOffer) -> list[float]:
    """Return the lowest and the highest price of one GPU of a pool; nothing where a type's is not known."""
    facts = [INSTANCE_TYPES.get(name) for name in pool.instance_types]
    prices = node_prices([each.price_cny_per_hour if each else None for each in facts], None)
    return [price / (pool.gpus_per_node or 1) for price in prices if price is not None]
