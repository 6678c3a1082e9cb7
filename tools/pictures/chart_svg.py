"""Line charts over time as SVG, from the figures that the pages show."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

from athanor.runs.svg import Axis, path, ticks

if TYPE_CHECKING:
    from tools.operations.dashboards.charts import Figure

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
