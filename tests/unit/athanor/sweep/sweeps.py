"""What the tests of sweeps share: command lines, plans, and runs that live in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from athanor.command_line import parser
from athanor.runs.series import read_series
from athanor.sweep.loop import Sweep
from athanor.sweep.plan import Plan, read_plan
from athanor.sweep.runs import GONE, LOST, STARTING, Look, StartError
from athanor.sweep.trials import Place, Trials

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from athanor.sweep.table import Row

GRID = ("--param", "lr=1,2,3,4", "--search", "grid")
COMMAND = ("--", "python", "train.py", "--lr", "{lr}")


def given(*words: str) -> argparse.Namespace:
    return parser().parse_args(["sweep", *words])


def plan(*words: str, command: tuple[str, ...] = COMMAND) -> Plan:
    return read_plan(given(*words, *command), "tune")


def printed(*losses: float) -> str:
    return "".join(json.dumps({"step": 10 * (at + 1), "loss": loss}) + "\n" for at, loss in enumerate(losses))


@dataclass
class Run:
    """A run whose program prints losses, then ends."""

    program: list[str]
    losses: list[float]
    then: str = "Completed"
    pace: float = 1
    """Losses that it prints in each round."""
    printed_losses: float = 0

    @property
    def has_ended(self) -> bool:
        return self.printed_losses > len(self.losses)

    def look(self, name: str) -> Look:
        self.printed_losses += self.pace
        phase = self.then if self.has_ended else "Running"
        place = Place(namespace="team", job=f"{name}-job")
        return Look(phase=phase, place=place, series=read_series(printed(*self.losses[: int(self.printed_losses)])))


@dataclass
class OwnRuns:
    """Runs of this process, which outlive any client of theirs."""

    program: Callable[[list[str]], Run]
    alive: dict[str, Run] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    refuses: str = ""
    """What every start says instead of starting."""
    wrong: str = ""
    """What every deletion says."""
    most: int = 0
    rounds: int = 0
    killed_at: int | None = None
    _starting: set[str] = field(default_factory=set)
    _deleted: dict[str, str] = field(default_factory=dict)

    def start(self, name: str, program: Sequence[str]) -> None:
        assert name not in self.alive
        self.started.append(name)
        self._starting.add(name)
        if not self.refuses:
            self.alive[name] = self.program(list(program))
        self.most = max(self.most, len([run for run in self.alive.values() if not run.has_ended]))

    def look(self, name: str, place: Place | None) -> Look:
        if name in self._starting:
            self._starting.remove(name)
            if self.refuses:
                raise StartError(self.refuses)
            return Look(phase=STARTING)
        if name not in self.alive:
            return Look(phase=GONE, place=place) if place else Look(phase=LOST)
        return self.alive[name].look(name)

    def delete(self, name: str) -> None:
        self._deleted[name] = self.wrong if self.alive.pop(name, None) else "is not there"

    def deleted(self) -> dict[str, str]:
        ended, self._deleted = self._deleted, {}
        return ended

    def wait(self) -> None:
        self.rounds += 1
        assert self.rounds < 1000, "the sweep never ends"
        if self.rounds == self.killed_at:
            raise KeyboardInterrupt

    def of_another_client(self) -> OwnRuns:
        return replace(self, killed_at=None, rounds=0, _starting=set(), _deleted={})


@dataclass
class Client:
    """One start of the command."""

    plan: Plan
    runs: OwnRuns
    journal: Path
    said: list[str] = field(default_factory=list)
    rounds: list[list[Row]] = field(default_factory=list)

    def work(self) -> list[Row]:
        self.trials = Trials(self.plan, self.journal)
        sweep = Sweep(
            plan=self.plan, trials=self.trials, runs=self.runs, show=self.rounds.append, warn=self.said.append
        )
        sweep.work()
        return sweep.rows()
