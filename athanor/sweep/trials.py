"""The trials of a sweep in optuna's storage: their parameters, progress and results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from athanor.sweep.plan import run_name

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from athanor.runs.series import Series
    from athanor.sweep.parameter import Parameter
    from athanor.sweep.plan import Plan

_JOB, _REASON, _DELETED = "job", "reason", "deleted"
"""Attributes of trials and of the study, in addition to what optuna keeps."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Location of a run's job."""

    namespace: str
    job: str


class Trials:
    """All trials of a sweep."""

    def __init__(self, plan: Plan, journal: Path) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._distributions = {each.name: _distribution(each, plan.search) for each in plan.space}
        self._storage = JournalStorage(JournalFileBackend(str(journal)))
        self._study = optuna.create_study(
            storage=self._storage, study_name=plan.name, direction=plan.goal, load_if_exists=True,
            sampler=_sampler(plan), pruner=_pruner(plan),
        )  # fmt: skip
        self._handles: dict[int, Trial] = {}

    def all(self) -> list[FrozenTrial]:
        """Return the records of all trials, by number."""
        return self._study.get_trials(deepcopy=False)

    def running(self) -> list[int]:
        """Return the numbers of the trials that have not ended."""
        return [trial.number for trial in self.all() if trial.state == TrialState.RUNNING]

    def add(self) -> int:
        """Add a trial that optuna chooses; return its number."""
        if self._plan.search == "grid":
            self._choose_next_point()
        trial = self._study.ask(self._distributions)
        self._handles[trial.number] = trial
        return trial.number

    def _choose_next_point(self) -> None:
        """Assign the next point of the grid to the next trial, the last parameter changing first.

        optuna's own GridSampler shuffles them.
        """
        trials = self.all()
        if any(trial.state == TrialState.WAITING for trial in trials):
            return  # of a client that was killed before it asked for it
        points = list(product(*(parameter.points() for parameter in self._plan.space)))
        names = [parameter.name for parameter in self._plan.space]
        self._study.enqueue_trial(dict(zip(names, points[len(trials) % len(points)], strict=True)))

    def run(self, number: int) -> str:
        """Return the name of a trial's run."""
        return run_name(self._plan.name, number)

    def values(self, number: int) -> dict[str, str]:
        """Return a trial's values as they are written into the command.

        A client that was killed while optuna chose them left some to be chosen now.
        """
        handle = self._handle(number)
        chosen = {name: _suggest(handle, name, each) for name, each in self._distributions.items()}
        return {name: each if isinstance(each, str) else repr(each) for name, each in chosen.items()}

    def report(self, number: int, series: Series) -> None:
        """Keep the metric of a trial's steps, each rounded down to two digits: 1, 2 … 99, 100, 110 … 990, 1000, 1100.

        The median rule compares trials at equal steps; so few of them suffice, whatever a program prints.
        """
        handle, known = self._handle(number), set(self._frozen(number).intermediate_values)
        for point in series.points:
            step = _rounded(point.step)
            if point.step >= 0 and step not in known and self._plan.metric in point.values:
                known.add(step)
                handle.report(point.values[self._plan.metric], step)

    def is_hopeless(self, number: int) -> bool:
        """Return whether the median rule would stop a trial now."""
        return self._handle(number).should_prune()

    def complete(self, number: int, value: float) -> None:
        """End a trial with its result."""
        self._tell(number, value, None)

    def stop_early(self, number: int) -> None:
        """End a trial that the median rule stops."""
        self._tell(number, None, TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """End a trial without a result."""
        self._handle(number).set_user_attr(_REASON, reason)
        self._tell(number, None, TrialState.FAIL)

    def _tell(self, number: int, value: float | None, state: TrialState | None) -> None:
        self._study.tell(number, value, state)
        assert self._frozen(number).state.is_finished()

    def place(self, number: int) -> Place | None:
        """Return where a trial's job is; None before it was first seen."""
        kept: dict[str, str] | None = self._frozen(number).user_attrs.get(_JOB)
        return None if kept is None else Place(**kept)

    def keep_place(self, number: int, place: Place) -> None:
        """Remember where a trial's job is."""
        self._handle(number).set_user_attr(_JOB, asdict(place))

    def to_delete(self) -> list[int]:
        """Return the trials that were stopped early and whose runs may still exist."""
        stopped = [trial.number for trial in self.all() if trial.state == TrialState.PRUNED]
        return [number for number in stopped if number not in self._deleted]

    def keep_deleted(self, number: int) -> None:
        """Remember that a trial's run was deleted."""
        self._study.set_user_attr(_DELETED, [*self._deleted, number])

    @property
    def _deleted(self) -> list[int]:
        # Of the study: optuna changes nothing of a trial that has ended.
        return self._study.user_attrs.get(_DELETED, [])

    def best(self) -> int | None:
        """Return the number of the best completed trial; None if none completed."""
        completed = [trial for trial in self.all() if trial.state == TrialState.COMPLETE]
        return self._study.best_trial.number if completed else None

    def _handle(self, number: int) -> Trial:
        if number not in self._handles:
            study_id = self._storage.get_study_id_from_name(self._plan.name)
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
            self._handles[number] = Trial(self._study, trial_id)
        return self._handles[number]

    def _frozen(self, number: int) -> FrozenTrial:
        return self.all()[number]


def reason_of(trial: FrozenTrial) -> str:
    """Return why a trial failed; empty if it did not."""
    return str(trial.user_attrs.get(_REASON, ""))


def _distribution(parameter: Parameter, search: str) -> BaseDistribution:
    if parameter.choices or search == "grid":
        return CategoricalDistribution(parameter.points())
    if parameter.whole:
        step = 1 if parameter.step is None else int(parameter.step)
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
    step = None if parameter.step is None else float(parameter.step)
    return FloatDistribution(float(parameter.low), float(parameter.high), log=parameter.log, step=step)


def _suggest(trial: Trial, name: str, among: BaseDistribution) -> str | int | float:
    if isinstance(among, CategoricalDistribution):
        return str(trial.suggest_categorical(name, among.choices))
    if isinstance(among, IntDistribution):
        return trial.suggest_int(name, among.low, among.high, step=among.step, log=among.log)
    assert isinstance(among, FloatDistribution)
    return trial.suggest_float(name, among.low, among.high, step=among.step, log=among.log)


def _sampler(plan: Plan) -> BaseSampler:
    return TPESampler() if plan.search == "tpe" else RandomSampler()


def _pruner(plan: Plan) -> BasePruner:
    return MedianPruner(n_startup_trials=plan.stop_early_after) if plan.stop_early else NopPruner()


def _rounded(step: int) -> int:
    unit = 10 ** max(0, len(str(abs(step))) - 2)
    return step // unit * unit
