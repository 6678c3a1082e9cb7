"""The estimated cost of a run, by the hourly arithmetic of infra/cost.py for the nodes that it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.cost import NOT_INCLUDED, add, hourly_cost, prices_note
from tools.acceptance.workload_requests import PODS_TO_COMPARE
from tools.upkeep.costs_page import cost_table_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from infra.cost import CostRow
    from infra.prices import Prices
    from infra.settings.alicloud import AlicloudSettings

_LIMIT = (
    "The cost is limited by `destroy`, which runs at the end, also after a failure or Ctrl-C. An autoscaled pool can"
    " grow to its `maximum` if something goes wrong."
)
HOURS = 3
"""Hours that an environment exists. A guess, not a measurement: half an hour to make it, two hours of steps that wait
for machines, half an hour to take it away."""


def statement(settings: AlicloudSettings, pools: Collection[str], prices: Prices) -> str:
    """Return the estimated cost of a run, as Markdown.

    Args:
        settings: the environment's.
        pools: names of the GPU pools that the run uses, two nodes of each.
        prices: what nodes and control planes cost.
    """
    rows = [_of_a_run(row, settings, pools) for row in hourly_cost(settings, prices)]
    total = add(rows)
    bounds = f"{prices.currency} {total.lowest * HOURS:.2f} to {total.highest * HOURS:.2f} in {HOURS} hours"
    unknown = sorted({*total.left_out_of_lowest, *total.left_out_of_highest})
    return "\n\n".join(
        [
            f"By the hour, with at most {PODS_TO_COMPARE} nodes of each GPU pool that the run uses:",
            cost_table_of(rows, prices.currency).rstrip("\n"),
            f"**Known: {bounds}** ({HOURS} hours are an estimate, not a measurement).",
            f"Without a known price, and therefore additional: {', '.join(unknown) or 'nothing'}.",
            f"Not included: {'; '.join(NOT_INCLUDED)}.",
            prices_note(prices),
            _LIMIT,
        ]
    )


def _of_a_run(row: CostRow, settings: AlicloudSettings, pools: Collection[str]) -> CostRow:
    """Return a row with the nodes that a run takes; a row that is not an autoscaled pool stays."""
    pool = next((one for one in settings.node_pools if row.what == f"pool {one.name}"), None)
    if pool is None or not pool.autoscaled:
        return row
    used = PODS_TO_COMPARE if pool.name in pools else 0
    return replace(row, most=max(pool.minimum, min(used, pool.maximum)))
