"""One panel as HTML: a figure, a table, or what went wrong."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from tools.dashboards import charts
from tools.dashboards.units import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.dashboards.answers import PanelAnswer

_VALUE = "Value"
"""Name of the column of a series' value; the others are labels."""


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
    """Return JSON as it may stand within a script element: nothing in it can end the element."""
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
    raise ValueError(f"panel {answer.title!r} of type {kind!r}: nothing draws it. Fix: draw it in tools/dashboards")


def _figure(data: str) -> str:
    return f'<div class="figure"></div><script type="application/json" data-figure>{embedded(data)}</script>'


def _table(answer: PanelAnswer) -> str:
    columns = _columns(answer.panel)
    head = "".join(f"<th{_align(label)}>{escape(heading)}</th>" for label, heading in columns.items())
    series = sorted(
        (each for one in answer.answers for each in one.series), key=lambda each: _order(each.points[-1][1])
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_align(label)}>{escape(_cell(answer, label, each.labels, each.points[-1][1]))}</td>"
            for label in columns
        )
        + "</tr>"
        for each in series
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(answer: PanelAnswer, label: str, labels: Mapping[str, str], value: float) -> str:
    return shown(answer.unit, value, answer.decimals) if label == _VALUE else labels.get(label, "")


def _order(value: float) -> tuple[bool, float]:
    """Return what puts the highest first and what is no number last."""
    return math.isnan(value), -value


def _columns(panel: Mapping[str, Any]) -> Mapping[str, str]:
    organized = next(each["options"] for each in panel["transformations"] if each["id"] == "organize")
    order = organized["indexByName"]
    return {label: organized["renameByName"][label] for label in sorted(order, key=order.__getitem__)}


def _align(label: str) -> str:
    return ' class="number"' if label == _VALUE else ""


def _queries(answer: PanelAnswer) -> str:
    shown_queries = "".join(f"<pre>{escape(one.expr)}</pre>" for one in answer.answers)
    return f"<details><summary>Query</summary>{shown_queries}</details>"
