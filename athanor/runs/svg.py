"""SVG charts: axes with round values, and paths through points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS = 4
_SLACK = 0.85


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Maps values to pixels, in one direction."""

    low: float
    high: float
    """Larger than `low`."""
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value is, in pixels."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float) -> list[float]:
    """Return round values between two, with about four steps of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= _SLACK * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def path(points: Iterable[tuple[float, float | None]], across: Axis, up: Axis) -> str:
    """Return the path through the points, interrupted where there is none."""
    drawn, pen = "", "M"
    for x, y in points:
        if y is None:
            pen = "M"
            continue
        drawn += f"{pen}{across.at(x):.1f} {up.at(y):.1f}"
        pen = "L"
    return drawn
