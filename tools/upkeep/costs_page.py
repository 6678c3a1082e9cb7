"""Writes the costs of every environment into docs/alicloud.md: `python -m tools.upkeep.costs_page`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from infra.cost import NOT_INCLUDED, PRICES, CostRow, CostSum, add, hourly_cost, list_prices, prices_note, stack_prices
from infra.settings.parse import parse_settings
from tools.paths import REPOSITORY
from tools.stacks.engine import stack_config
from tools.upkeep.generated_section import with_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.prices import Prices
    from infra.settings.alicloud import AlicloudSettings

PAGE = REPOSITORY / "docs" / "alicloud.md"
BEGIN = "<!-- costs: written by `python -m tools.upkeep.costs_page` -->\n"
END = "<!-- end of costs -->\n"
UNKNOWN = "unknown"


def page_with_costs(page: str) -> str:
    """Return the page with the generated part up to date.

    Raises:
        RefusalError: the page lacks a marker.
    """
    return with_section(page, PAGE, (BEGIN, END), _costs())


def cost_table(settings: AlicloudSettings, prices: Prices | None = None) -> str:
    """Return one environment's costs as a Markdown table, by default with the prices of the built-in list."""
    table = prices or list_prices()
    return cost_table_of(hourly_cost(settings, table), table.currency)


def cost_table_of(rows: Sequence[CostRow], currency: str) -> str:
    """Return rows and their sum as a Markdown table."""
    lines = [f"| what | how many | {currency}/h each | {currency}/h together | note |", "|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    lines.append(_sum_line(add(rows)))
    return "\n".join(lines) + "\n"


def _costs() -> str:
    parts = [f"{PRICES}\n"]
    for file in sorted(REPOSITORY.glob("Pulumi.*.yaml")):
        stack = file.name.split(".")[1]
        settings = parse_settings(stack_config(stack))
        if settings.alicloud:
            prices = stack_prices(settings.prices)
            own = f"{prices_note(prices)}\n\n" if settings.prices else ""
            parts.append(f"**{stack}**\n\n{own}{cost_table(settings.alicloud, prices)}")
    parts.append("Not included: " + "; ".join(NOT_INCLUDED) + ".\n")
    return "\n".join(parts)


def _line(row: CostRow) -> str:
    count = str(row.most) if row.fewest == row.most else f"{row.fewest} to {row.most}"
    each, together = _range(row.each_lowest, row.each_highest), _range(row.lowest, row.highest)
    return f"| {row.what} | {count} | {each} | {together} | {row.note} |"


def _sum_line(total: CostSum) -> str:
    known = f"{_bound(total.lowest, total.left_out_of_lowest)} to {_bound(total.highest, total.left_out_of_highest)}"
    return f"| **together** | | | **{known}** | |"


def _bound(price: float, left_out: tuple[str, ...]) -> str:
    return f"{_price(price)} + {len(left_out)} unknown" if left_out else _price(price)


def _range(lowest: float | None, highest: float | None) -> str:
    if lowest == highest:
        return _price(lowest)
    if lowest is None:
        return f"at most {_price(highest)}"
    return f"{_price(lowest)} to {_price(highest)}"


def _price(price: float | None) -> str:
    return UNKNOWN if price is None else f"{price:.2f}" if price else "0"


if __name__ == "__main__":
    PAGE.write_text(page_with_costs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)} written\n")
