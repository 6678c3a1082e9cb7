"""Lines over time as SVG, from the figures that the pages show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.operations.dashboards.charts import Figure

_TICKS = 4
_SLACK = 0.85
_LEFT, _BOTTOM = 52, 22


@dataclass(frozen=True, kw_only=True)
class Area:
    """A rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Maps values to pixels, in one direction."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float) -> list[float]:
    """Return round values between two, with about four steps of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= _SLACK * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def chart(figure: Figure, area: Area, start: float, end: float) -> str:
    """Return the SVG of lines with axes.

    Args:
        figure: Of `tools.operations.dashboards.charts.lines`.
        area: Where it goes, with the labels of the axes.
        start: Left end of the time axis, Unix time in seconds; the axis counts from there.
        end: Right end.
    """
    time = _Axis(low=0, high=end - start, start=area.x + _LEFT, end=area.x + area.width)
    low, high = _ends(figure)
    value = _Axis(low=low, high=high, start=area.y + area.height - _BOTTOM, end=area.y + 6)
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
        path = _path([(x / 1000 - start, y) for x, y in zip(trace["x"], trace["y"], strict=True)], time, value)
        parts.append(f'<path class="line line{index}" d="{path}"/>')
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


def _path(points: Sequence[tuple[float, float | None]], time: _Axis, value: _Axis) -> str:
    """Return the path through the points, interrupted where there is none."""
    path, pen = "", "M"
    for x, y in points:
        if y is None:
            pen = "M"
            continue
        path += f"{pen}{time.at(x):.1f} {value.at(y):.1f}"
        pen = "L"
    return path
