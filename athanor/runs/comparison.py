"""`athanor compare`: the differences between two runs, and their results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.runs.series import LOSSES, sparkline

if TYPE_CHECKING:
    from athanor.runs.series import Series


@dataclass(frozen=True)
class Comparison:
    """Two runs next to each other.

    Attributes:
        runs: Their names.
        series: What each printed of its steps.
        differing: By name, the arguments and hyperparameters in which they differ; a run that lacks one has None.
        same: How many more arguments are the same.
    """

    runs: tuple[str, str]
    series: tuple[Series, Series]
    differing: dict[str, tuple[Any, Any]]
    same: int

    @classmethod
    def of(cls, runs: tuple[str, str], recorded: tuple[str, str], series: tuple[Series, Series]) -> Comparison:
        """Compare two runs; what their programs print as hyperparameters counts like arguments.

        Args:
            runs: Their names.
            recorded: The arguments of each as JSON; empty for a run of an earlier release.
            series: What each printed of its steps.
        """
        left, right = ({**_arguments(text), **each.settings} for text, each in zip(recorded, series, strict=True))
        names = sorted({*left, *right})
        pairs = {name: (left.get(name), right.get(name)) for name in names}
        differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        return cls(runs, series, differing, same=len(pairs) - len(differing))

    def to_json(self) -> dict[str, Any]:
        """Return the object that --json prints: by name a pair of values, null where a run has none."""
        return {
            "runs": self.runs,
            "arguments": self.differing,
            "step": tuple(each.step for each in self.series),
            "latest": self._latest(),
        }

    def lines(self) -> list[str]:
        """Return the lines for people: a table, the curves of the first loss that both have, and what is the same."""
        steps = tuple(each.step for each in self.series)
        rows = [("", *self.runs), *self._rows(self.differing), *self._rows({"latest step": steps})]
        latest = {f"{name}, latest": tuple(map(_short, pair)) for name, pair in self._latest().items()}
        lines = [*_aligned([*rows, *self._rows(latest)]), *self._curves()]
        return [*lines, f"{self.same} more arguments are the same"] if self.same else lines

    def _latest(self) -> dict[str, tuple[float | None, ...]]:
        metrics = sorted({name for each in self.series for name in each.names()})
        return {name: tuple((each.values(name) or [None])[-1] for each in self.series) for name in metrics}

    def _curves(self) -> list[str]:
        loss = next((name for name in LOSSES if all(each.values(name) for each in self.series)), None)
        if loss is None:
            return []
        pairs = zip(self.runs, self.series, strict=True)
        return [f"{run}: {loss} {sparkline(each.values(loss))}" for run, each in pairs]

    @staticmethod
    def _rows(pairs: dict[str, tuple[Any, ...]]) -> list[tuple[str, ...]]:
        return [(printable(name), *map(_cell, pair)) for name, pair in pairs.items()]


def _arguments(recorded: str) -> dict[str, Any]:
    return json.loads(recorded) if recorded else {}


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
