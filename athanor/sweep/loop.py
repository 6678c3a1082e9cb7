"""The main loop of a sweep: ask optuna for trials, run a limited number at a time, report their results."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from athanor.runs.job import COMPLETED, ENDED
from athanor.sweep.runs import GONE, LOST, STARTING, UNKNOWN, Look
from athanor.sweep.space import fill
from athanor.sweep.table import Row, row_of
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from athanor.sweep.plan import Plan
    from athanor.sweep.runs import Runs
    from athanor.sweep.trials import Trials

_MOST_FAILURES = 3
"""Trials in a row, from the first on, after which a sweep ends: the fault is not in the values."""
_LOOKS_FOR_A_RESULT = 3
"""At a completed trial that seems to have printed no result: its logs may only be out of reach."""


@dataclass(kw_only=True)
class Sweep:
    """A sweep at work."""

    plan: Plan
    trials: Trials
    runs: Runs
    show: Callable[[list[Row]], None]
    """Called after each round of looks."""
    warn: Callable[[str], None]
    _looks: dict[int, Look] = field(default_factory=dict[int, Look])
    _deleting: dict[str, int] = field(default_factory=dict[str, int])
    _without_result: dict[int, int] = field(default_factory=dict[int, int])

    def work(self) -> None:
        """Return when all trials have ended, or none can be expected to complete.

        Raises:
            StartError: a run could not be started; those that run continue.
            RefusalError: the cluster does not answer, or the first trials failed, all of them.
        """
        for number in self.trials.to_delete():
            self._delete(number)
        while True:
            for number in self.trials.running():
                self._look(number)
            self._collect_deletions()
            self._add()
            self.show(self.rows())
            if not self.trials.running() and not self._deleting:
                self._check_failures()
                return
            self.runs.wait()

    def rows(self) -> list[Row]:
        """Return a row for every trial."""
        best = self.trials.best()
        return [
            row_of(trial, self.trials.run(trial.number), self._looks.get(trial.number), is_best=trial.number == best)
            for trial in self.trials.all()
        ]

    def _add(self) -> None:
        """Start as many trials as there is room for; the first one alone, to see whether any can be started."""
        while len(self.trials.all()) < self.plan.trials and len(self.trials.running()) < self.plan.parallel:
            if self.trials.all() and not any(self.trials.place(trial.number) for trial in self.trials.all()):
                return
            if self._have_all_failed():
                return
            self._start(self.trials.add())

    def _start(self, number: int) -> None:
        self._looks[number] = Look(phase=STARTING)
        self.runs.start(self.trials.run(number), fill(self.plan.program, self.trials.values(number)))

    def _look(self, number: int) -> None:
        known = self.trials.place(number)
        look = self.runs.look(self.trials.run(number), known)
        if look.phase == UNKNOWN:
            return
        self._looks[number] = look
        if look.phase == LOST:
            self._start(number)
            return
        if known is None and look.place is not None:
            self.trials.keep_place(number, look.place)
        if look.phase == GONE:
            self.trials.fail(number, "its job is gone from the cluster")
            return
        self.trials.report(number, look.series)
        if look.phase == COMPLETED:
            self._complete(number, look)
        elif look.phase in ENDED:
            self.trials.fail(number, f"{look.phase} {look.message}".strip())
        elif self.trials.is_hopeless(number):
            self.trials.stop_early(number)
            self._delete(number)

    def _complete(self, number: int, look: Look) -> None:
        values = look.series.values(self.plan.metric)
        if values:
            self.trials.complete(number, values[-1])
            return
        self._without_result[number] = self._without_result.get(number, 0) + 1
        if self._without_result[number] == _LOOKS_FOR_A_RESULT:
            others = ", ".join(look.series.names())
            example = json.dumps({"step": 1, self.plan.metric: 0.5})
            instead = f"its lines have {others}" if others else f"print lines such as {example}"
            self.trials.fail(number, f"completed, but no line has {self.plan.metric}: {instead}")

    def _delete(self, number: int) -> None:
        name = self.trials.run(number)
        self._deleting[name] = number
        self.runs.delete(name)

    def _collect_deletions(self) -> None:
        for name, wrong in self.runs.deleted().items():
            self.trials.keep_deleted(self._deleting.pop(name))
            if wrong:
                self.warn(f"run {name} was not deleted: {wrong}")

    def _have_all_failed(self) -> bool:
        ended = [trial.state for trial in self.trials.all() if trial.state.is_finished()]
        return len(ended) >= _MOST_FAILURES and set(ended) == {TrialState.FAIL}

    def _check_failures(self) -> None:
        if self._have_all_failed() and len(self.trials.all()) < self.plan.trials:
            number = len(self.trials.all())
            fix = f"see `athanor logs {self.trials.run(number - 1)}`, then begin another sweep"
            raise RefusalError("sweep", self.plan.name, f"its first {number} trials have all failed", fix)
