"""Series of numbers in the output of a program: JSON lines with a step, such as {"step": 10, "loss": 0.3}.

Another line holds its hyperparameters, {"hyperparameters": {"lr": 0.1}}, and may be repeated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BARS = "▁▂▃▄▅▆▇█"
LOSSES = ("loss", "train_loss", "training_loss")
"""Names of what a program minimises."""
_TOTALS = ("total_steps", "max_steps", "steps")
"""Names under which programs tell how many steps there will be."""
_SECONDS_LEFT = "seconds_left"
_OF_THE_RUN = {*_TOTALS, _SECONDS_LEFT}
"""Numbers that describe the run's length, and no curve."""
_SETTINGS = "hyperparameters"
_RECENT = 50
_LARGEST = 1e150
"""Numbers beyond are left out like NaN: their differences and means might not be numbers any more."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One line."""

    step: int
    values: Mapping[str, float]
    """Every other number of the line, by its name."""
    at: datetime | None
    """Time when it was printed, if known."""
    seconds_left: float | None = None
    """Time to the last step, as the program says; None if it does not."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """All lines of one pod, in their order; of its earlier starts, too, where they are known."""

    points: Sequence[Point]
    total_steps: int | None
    """Total that the program prints; None if it does not."""
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Its hyperparameters, by their names."""
    earlier: int = 0
    """Number of points from earlier starts of the pod."""

    def and_then(self, later: Series) -> Series:
        """Return these lines and those of a later start."""
        return Series(
            points=[*self.points, *later.points],
            total_steps=self.total_steps if later.total_steps is None else later.total_steps,
            settings={**self.settings, **later.settings},
            earlier=len(self.points),
        )

    def values(self, name: str) -> list[float]:
        """Return the values of a number, in the order of the steps."""
        return [point.values[name] for point in self.points if name in point.values]

    def names(self) -> list[str]:
        """Return the names of all numbers, in alphabetical order."""
        return sorted({name for point in self.points for name in point.values})

    @property
    def step(self) -> int | None:
        """The latest step; None before the first."""
        return self.points[-1].step if self.points else None

    @property
    def _recent(self) -> Sequence[Point]:
        return self.points[self.earlier :][-_RECENT:]

    def steps_per_second(self) -> float | None:
        """Return the pace of the last lines; None where they do not tell, or the last start was later."""
        recent = [point for point in self._recent if point.at is not None]
        if len(recent) < 2 or recent[0].at is None or recent[-1].at is None:
            return None
        seconds, steps = (recent[-1].at - recent[0].at).total_seconds(), recent[-1].step - recent[0].step
        return steps / seconds if seconds > 0 and steps > 0 else None

    def seconds_left(self) -> float | None:
        """Return the time to the last step as the program says, else at this pace; None where neither is known."""
        said = [point.seconds_left for point in self._recent if point.seconds_left is not None]
        if said:
            return said[-1]
        pace = self.steps_per_second()
        if pace is None or self.total_steps is None or self.step is None:
            return None
        return max(0, self.total_steps - self.step) / pace


def read_series(text: str) -> Series:
    """Return the series in log lines; other lines than JSON objects with a whole `step` are left out.

    Args:
        text: What a pod has written; a line may have the time in front that `kubectl logs --timestamps` writes.
    """
    points: list[Point] = []
    total: int | None = None
    settings: dict[str, object] = {}
    for line in text.splitlines():
        at, fields = _parsed(line)
        total = next((int(fields[name]) for name in _TOTALS if _is_number(fields.get(name))), total)
        said = fields.get(_SETTINGS)
        settings.update(cast("dict[str, object]", said) if isinstance(said, dict) else {})
        step = fields.get("step")
        numbers = {name: float(value) for name, value in fields.items() if name != "step" and _is_number(value)}
        if isinstance(step, int) and _is_number(step) and numbers:
            values = {name: value for name, value in numbers.items() if name not in _OF_THE_RUN}
            points.append(Point(step=step, values=values, at=at, seconds_left=_time_left(numbers)))
    return Series(points=points, total_steps=total, settings=settings)


def _parsed(line: str) -> tuple[datetime | None, dict[str, Any]]:
    stamp, _, rest = line.partition(" ")
    at: datetime | None = None
    if stamp.endswith("Z") and "T" in stamp:
        try:
            # Python reads microseconds, the kubelet writes nanoseconds.
            at = datetime.fromisoformat(f"{stamp[:26].rstrip('Z')}+00:00")
        except ValueError:
            rest = line
    else:
        rest = line
    try:
        parsed: object = json.loads(rest) if rest.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        parsed = None
    return at, cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _time_left(numbers: Mapping[str, float]) -> float | None:
    seconds = numbers.get(_SECONDS_LEFT)
    return None if seconds is None else max(0.0, seconds)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < _LARGEST


def losses_first(names: Iterable[str]) -> list[str]:
    """Return names of numbers in the order in which people look at them."""
    return sorted(names, key=lambda name: (LOSSES.index(name) if name in LOSSES else len(LOSSES), name))


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Return a curve of one line: means of equal parts, from the lowest to the highest value."""
    if not values:
        return ""
    parts = min(width, len(values))
    edges = [round(part * len(values) / parts) for part in range(parts + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
