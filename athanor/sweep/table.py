"""The trials of a sweep as a table, as log lines, and as JSON."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

from athanor.inspection.columns import columns
from athanor.sweep.trials import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.trial import FrozenTrial

    from athanor.sweep.runs import Look

_CLEAR = "\x1b[H\x1b[J"
_STATES = {TrialState.COMPLETE: "completed", TrialState.PRUNED: "stopped early", TrialState.FAIL: "failed"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A trial."""

    trial: int
    run: str
    state: str
    """completed, stopped early, failed, or the phase of its job."""
    values: Mapping[str, Any]
    step: int | None
    """The latest that was seen."""
    metric: float | None
    """The result of a completed trial, and the latest value of another."""
    best: bool
    reason: str
    """Reason of its failure."""


def row_of(trial: FrozenTrial, run: str, look: Look | None, *, is_best: bool) -> Row:
    """Return the row of a trial.

    Args:
        trial: What optuna keeps.
        run: Name of its run.
        look: How the run did when this client last looked; None if it never did.
        is_best: Whether it is the best of all.
    """
    kept = trial.intermediate_values
    latest = kept[max(kept)] if kept else None
    step = look.series.step if look else None
    return Row(
        trial=trial.number, run=run, state=_STATES.get(trial.state) or (look.phase if look else "running"),
        values=trial.params, step=max(kept, default=None) if step is None else step,
        metric=latest if trial.value is None else trial.value, best=is_best, reason=reason_of(trial),
    )  # fmt: skip


def table(rows: Sequence[Row], metric: str) -> list[str]:
    """Return the lines of a table with a heading; the best trial has a star."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    cells = [("", "TRIAL", "RUN", "STATE", *(name.upper() for name in names), "STEP", metric.upper())]
    cells += [
        ("*" if row.best else "", str(row.trial), row.run, row.state, *(_short(row.values.get(name)) for name in names),
         _short(row.step), _short(row.metric))
        for row in rows
    ]  # fmt: skip
    return [*columns(cells), *(f"trial {row.trial}: {row.reason}" for row in rows if row.reason)]


def live(metric: str, title: str) -> Callable[[list[Row]], None]:
    """Return a function that shows the trials in a terminal, as a table that is redrawn each time."""

    def show(rows: list[Row]) -> None:
        sys.stderr.write("".join([_CLEAR, *(f"{line}\n" for line in [title, *table(rows, metric)])]))
        sys.stderr.flush()

    return show


def lines(metric: str, title: str) -> Callable[[list[Row]], None]:
    """Return a function that prints a line for each trial whose state has changed."""
    sys.stderr.write(f"{title}\n")
    states: dict[int, str] = {}

    def show(rows: list[Row]) -> None:
        for row in rows:
            if states.get(row.trial) != row.state:
                states[row.trial] = row.state
                sys.stderr.write(f"{_line(row, metric)}\n")
        sys.stderr.flush()

    return show


def to_json(name: str, rows: Sequence[Row], then: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the sweep for --json: all trials, the run of the best, or null, and what came of --then, or null."""
    return {
        "sweep": name,
        "best": next((row.run for row in rows if row.best), None),
        "trials": [asdict(row) for row in rows],
        "then": then,
    }


def _line(row: Row, metric: str) -> str:
    values = " ".join(f"{name}={_short(value)}" for name, value in row.values.items())
    result = f", {metric} {_short(row.metric)}" if row.metric is not None else ""
    return f"{row.run}: {row.state}{result} ({values})" + (f": {row.reason}" if row.reason else "")


def _short(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
