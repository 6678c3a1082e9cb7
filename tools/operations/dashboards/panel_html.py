"""One panel as HTML: a figure, a table, or an error."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from tools.operations.dashboards import charts
from tools.operations.dashboards.units import formatted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.operations.dashboards.answers import PanelAnswer

_VALUE = "Value"
"""Start of the names of the columns of values; the others are labels."""


def panel(answer: PanelAnswer, step: int) -> str:
    """Return the HTML of a panel.

    Args:
        answer: The panel and what Prometheus said.
        step: Seconds between two points.
    """
    state = " failed" if answer.errors else "" if answer.has_data else " empty"
    asks, _, when_bad = answer.panel["description"].partition("\n\n")
    width = answer.panel["gridPos"]["w"]
    return (
        f'<section class="panel{state}" style="grid-column: span {width:d}" data-panel="{answer.panel["id"]:d}">'
        f'<h3>{escape(answer.title)}</h3><p class="asks">{escape(asks)}</p><p class="when-bad">{escape(when_bad)}</p>'
        f"{_content(answer, step)}{_queries(answer)}</section>"
    )


def embedded(data: str) -> str:
    """Return JSON that is safe within a script element: nothing in it can end the element."""
    return data.replace("<", "\\u003c")


def _content(answer: PanelAnswer, step: int) -> str:
    errors = "".join(f'<p class="error">{escape(one.error)}</p>' for one in answer.errors)
    if not answer.has_data:
        return errors or '<p class="nothing">No data in this time range.</p>'
    kind = answer.panel["type"]
    if kind == "table":
        return errors + _table(answer)
    if kind == "stat" and not charts.is_number(answer):
        return f'{errors}<p class="value">not a number</p>'
    return errors + _figure(charts.figure_json(_drawn(answer, kind, step)))


def _drawn(answer: PanelAnswer, kind: str, step: int) -> charts.Figure:
    if kind == "timeseries":
        return charts.lines(answer, step)
    if kind == "bargauge":
        return charts.bars(answer)
    if kind == "stat":
        return charts.number(answer)
    raise ValueError(f"panel {answer.title!r} of type {kind!r}: nothing renders it. Fix: add it to this module")


def _figure(data: str) -> str:
    return f'<div class="figure"></div><script type="application/json" data-figure>{embedded(data)}</script>'


def _table(answer: PanelAnswer) -> str:
    columns = _columns(answer.panel)
    head = "".join(f"<th{_align(label)}>{escape(heading)}</th>" for label, heading in columns.items())
    rows = "".join(
        "<tr>" + "".join(f"<td{_align(label)}>{escape(row.get(label, ''))}</td>" for label in columns) + "</tr>"
        for row in _rows(answer, columns)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _rows(answer: PanelAnswer, columns: Mapping[str, str]) -> list[Mapping[str, str]]:
    """Return one row of cells for each set of labels, the highest value of the last query first."""
    names = [column for column in columns if column.startswith(_VALUE)] or [_VALUE]
    cells: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    last: dict[tuple[tuple[str, str], ...], float] = {}
    for name, one in zip(names, answer.answers, strict=True):
        for series in one.series:
            key, value = tuple(sorted(series.labels.items())), series.points[-1][1]
            cells.setdefault(key, dict(series.labels))[name] = formatted(answer.unit, value, answer.decimals)
            last[key] = value
    return [cells[key] for key in sorted(cells, key=lambda key: _order(last[key]))]


def _order(value: float) -> tuple[bool, float]:
    """Return the key that sorts the highest first and everything that is not a number last."""
    return math.isnan(value), -value


def _columns(panel: Mapping[str, Any]) -> Mapping[str, str]:
    organized = next(each["options"] for each in panel["transformations"] if each["id"] == "organize")
    order = organized["indexByName"]
    return {label: organized["renameByName"][label] for label in sorted(order, key=order.__getitem__)}


def _align(label: str) -> str:
    return ' class="number"' if label.startswith(_VALUE) else ""


def _queries(answer: PanelAnswer) -> str:
    shown_queries = "".join(f"<pre>{escape(one.expr)}</pre>" for one in answer.answers)
    return f"<details><summary>Query</summary>{shown_queries}</details>"
