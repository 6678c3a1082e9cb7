"""The dashboard of a job as one SVG: its numbers and curves, in light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

from athanor.runs.svg import Axis, path, ticks
from tools.operations.dashboards import charts
from tools.operations.dashboards.units import formatted

if TYPE_CHECKING:
    from tools.operations.dashboards.answers import PanelAnswer
    from tools.operations.dashboards.charts import Figure
    from tools.operations.dashboards.page import Page

_LEFT, _BOTTOM = 52, 22


@dataclass(frozen=True, kw_only=True)
class Area:
    """A rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float


def chart(figure: Figure, area: Area, start: float, end: float) -> str:
    """Return the SVG of lines with axes.

    Args:
        figure: Of `tools.operations.dashboards.charts.lines`.
        area: Where it goes, with the labels of the axes.
        start: Left end of the time axis, Unix time in seconds; the axis counts from there.
        end: Right end.
    """
    time = Axis(low=0, high=end - start, start=area.x + _LEFT, end=area.x + area.width)
    low, high = _ends(figure)
    value = Axis(low=low, high=high, start=area.y + area.height - _BOTTOM, end=area.y + 6)
    suffix = figure["layout"]["yaxis"]["ticksuffix"]
    parts = [
        f'<path class="grid" d="M{time.start:.1f} {value.at(tick):.1f}H{time.end:.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{time.start - 6:.1f}" y="{value.at(tick) + 4:.1f}">'
        f"{tick:g}{escape(suffix)}</text>"
        for tick in ticks(low, high)
    ]
    parts += [
        f'<text class="tick" text-anchor="middle" x="{time.at(tick):.1f}" y="{value.start + 17:.1f}">{tick:g} s</text>'
        for tick in ticks(0, end - start)
    ]
    for index, trace in enumerate(figure["data"]):
        drawn = path([(x / 1000 - start, y) for x, y in zip(trace["x"], trace["y"], strict=True)], time, value)
        parts.append(f'<path class="line line{index}" d="{drawn}"/>')
    return "".join(parts)


def legend(figure: Figure) -> str:
    """Return the names of a chart's lines, in their colours; nothing where there is one."""
    if len(figure["data"]) < 2:
        return ""
    names = [unescape(trace["name"]) for trace in figure["data"]]
    return "".join(f'<tspan class="name{index}" dx="10">{escape(name)}</tspan>' for index, name in enumerate(names))


def _ends(figure: Figure) -> tuple[float, float]:
    given = figure["layout"]["yaxis"].get("range")
    if given:
        return given[0], given[1]
    values = [y for trace in figure["data"] for y in trace["y"] if y is not None]
    return 0.0, 1.1 * max(values, default=1.0) or 1.0


NUMBERS = ("Progress", "Loss", "Samples per second", "Checkpoint age")
CURVES = ("Loss over time", "Test accuracy", "Throughput", "Time per step")
"""Panels with data on any machine: `make up` has no GPU."""
_WIDTH, _GAP, _TOP = 1020, 14, 76
_NUMBER_HEIGHT, _CURVE_HEIGHT, _COLUMNS = 84, 224, 2
_STYLE = """
svg { --ground: #f5f6f8; --card: #ffffff; --text: #1d2330; --muted: #5c6575; --line: #dfe3ea; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #12151b; --card: #1b1f28; --text: #e4e8f0; --muted: #9aa4b5; --line: #2d3442; }
}
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--text); }
.ground { fill: var(--ground); } .card { fill: var(--card); stroke: var(--line); }
.title { font-size: 24px; font-weight: 700; } .about { font-size: 15px; fill: var(--muted); }
.panel { font-size: 15px; font-weight: 600; } .asks, .tick { font-size: 12.5px; fill: var(--muted); }
.value { font-size: 30px; }
.grid { stroke: var(--line); } .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line0 { stroke: #3b7dd8; } .line1 { stroke: #e08a1e; } .name0 { fill: #3b7dd8; } .name1 { fill: #e08a1e; }
"""


def board_svg(page: Page) -> str:
    """Return the picture of a job's dashboard.

    Raises:
        ValueError: a panel of the picture has no data, so the job is not one to draw.
    """
    answers = {answer.title: answer for answer in page.answers.values()}
    if missing := [title for title in (*NUMBERS, *CURVES) if not answers[title].has_data]:
        raise ValueError(
            f"no data for {', '.join(missing)}. Fix: train a job for a minute or longer, then draw it again"
        )
    rows = -(-len(CURVES) // _COLUMNS)
    height = _TOP + _NUMBER_HEIGHT + _GAP + rows * (_CURVE_HEIGHT + _GAP)
    body = [_heading(page)]
    for index, title in enumerate(NUMBERS):
        width = (_WIDTH - _GAP) / len(NUMBERS) - _GAP
        place = Area(x=_GAP + index * (width + _GAP), y=_TOP, width=width, height=_NUMBER_HEIGHT)
        body.append(_number(answers[title], place))
    for index, title in enumerate(CURVES):
        row, column = divmod(index, _COLUMNS)
        width = (_WIDTH - _GAP) / _COLUMNS - _GAP
        top = _TOP + _NUMBER_HEIGHT + _GAP + row * (_CURVE_HEIGHT + _GAP)
        place = Area(x=_GAP + column * (width + _GAP), y=top, width=width, height=_CURVE_HEIGHT)
        body.append(_curve(page, answers[title], place))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="Dashboard of a training job">\n<style>{_STYLE}</style>\n'
        f'<rect class="ground" width="{_WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _heading(page: Page) -> str:
    job = escape(page.chosen.values["workload"])
    return (
        f'<text class="title" x="{_GAP + 2}" y="36">{escape(page.board["title"])}: {job}</text>'
        f'<text class="about" x="{_GAP + 2}" y="60">{escape(page.board["description"])}</text>'
    )


def _card(answer: PanelAnswer, place: Area) -> str:
    return (
        f'<rect class="card" x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}"'
        f' rx="8"/><text class="panel" x="{place.x + 14:.1f}" y="{place.y + 24:.1f}">{escape(answer.title)}</text>'
    )


def _number(answer: PanelAnswer, place: Area) -> str:
    value = escape(formatted(answer.unit, charts.last(answer), answer.decimals))
    return f'{_card(answer, place)}<text class="value" x="{place.x + 14:.1f}" y="{place.y + 64:.1f}">{value}</text>'


def _curve(page: Page, answer: PanelAnswer, place: Area) -> str:
    figure = charts.lines(answer, page.window.step)
    asks = answer.panel["description"].partition("?")[0] + "?"
    plot = Area(x=place.x + 8, y=place.y + 52, width=place.width - 26, height=place.height - 60)
    return (
        f'{_card(answer, place)}<text class="asks" x="{place.x + 14:.1f}" y="{place.y + 43:.1f}">{escape(asks)}'
        f"{legend(figure)}</text>{chart(figure, plot, page.window.start, page.window.end)}"
    )
