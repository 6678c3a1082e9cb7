"""The change in nodes, GPUs and money, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.review.capacity import HOURS_A_MONTH, Capacity, Pool, Row
from athanor.review.text import code

if TYPE_CHECKING:
    from athanor.review.prices import Prices
    from infra.cost import CostRow

_MOST_ROWS = 40


def capacity_section(capacity: Capacity, prices: Prices) -> str:
    """Return the section; "" where nothing of the kind changes."""
    if not capacity.rows:
        return ""
    lines = [
        "### Nodes, GPUs and cost",
        "",
        f"| what | nodes | GPUs at most | {prices.currency} an hour, before | {prices.currency} an hour, after |",
        "|---|---|---|---|---|",
        *(_line(row) for row in capacity.rows[:_MOST_ROWS]),
    ]
    if len(capacity.rows) > _MOST_ROWS:
        lines.append(f"| and {len(capacity.rows) - _MOST_ROWS:,} more | | | | |")
    return "\n".join([*lines, "", *_sums(capacity, prices), "", _source(prices)])


def nodes_change(capacity: Capacity) -> str:
    """Return the change in nodes for a cell of a table, at the minimum and at the maximum."""
    return _bounds(*(f"{count:+,}" if count else "0" for count in capacity.nodes()))


def gpus_change(capacity: Capacity) -> str:
    """Return the change in GPUs for a cell of a table, at the minimum and at the maximum."""
    gpus = capacity.gpus()
    return "unknown" if gpus is None else _bounds(*(f"{count:+,}" if count else "0" for count in gpus))


def month_change(capacity: Capacity) -> str:
    """Return the change in cost of a month for a cell of a table."""
    if not capacity.rows:
        return "0"
    return _bounds(*(_amount(cost.per_hour, cost.left_out, HOURS_A_MONTH) for cost in capacity.costs()))


def _sums(capacity: Capacity, prices: Prices) -> list[str]:
    lines: list[str] = []
    for where, cost in zip(("minimum", "maximum"), capacity.costs(), strict=True):
        hour, month = _amount(cost.per_hour, (), 1), _amount(cost.per_hour, (), HOURS_A_MONTH)
        text = f"- **At the {where}: {prices.currency} {hour} an hour, {month} a month**"
        if cost.left_out:
            names = ", ".join(code(name, 60) for name in cost.left_out[:10])
            text += f", without {names}{' and others' if len(cost.left_out) > 10 else ''}: price unknown"
        lines.append(text)
    return lines


def _amount(change: float, unknown: tuple[str, ...], hours: int) -> str:
    amount = round(change * hours, 2)
    text = f"{amount:+,.2f}" if amount else "0"
    return f"{text} + unknown" if unknown else text


def _bounds(lowest: str, highest: str) -> str:
    return lowest if lowest == highest else f"{lowest} to {highest}"


def _line(row: Row) -> str:
    nodes = f"{_nodes(row.pool_before)} → {_nodes(row.pool_after)}" if row.pool_before or row.pool_after else ""
    gpus = f"{_gpus(row.pool_before)} → {_gpus(row.pool_after)}" if row.pool_before or row.pool_after else ""
    return f"| {code(row.what, 60)} | {nodes} | {gpus} | {_price(row.before)} | {_price(row.after)} |"


def _nodes(pool: Pool | None) -> str:
    return "none" if pool is None else _bounds(f"{pool.fewest:,}", f"{pool.most:,}")


def _gpus(pool: Pool | None) -> str:
    if pool is None or not pool.most:
        return "0"
    return "unknown" if pool.gpus_per_node is None else f"{pool.most * pool.gpus_per_node:,}"


def _price(row: CostRow | None) -> str:
    if row is None:
        return "0"
    return _bounds(_known(row.lowest), _known(row.highest))


def _known(price: float | None) -> str:
    return "unknown" if price is None else f"{price:,.2f}" if price else "0"


def _source(prices: Prices) -> str:
    table = code(prices.source or "a table of prices", 300)
    return (
        f"Prices of {prices.as_of} ({table}); a month has {HOURS_A_MONTH} hours. Only what changes"
        " is listed; disks, traffic and what is billed by use are left out. An estimate: the bill decides."
    )
