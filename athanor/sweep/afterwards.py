"""The final command of a sweep, which gets the best trial's values and files, such as an export."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from athanor.runs.job import COMPLETED, ENDED
from athanor.sweep.runs import GONE, LOST, StartError
from athanor.sweep.space import fill
from athanor.sweep.then import FOLDER, RUN
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from athanor.sweep.plan import Plan
    from athanor.sweep.runs import Runs
    from athanor.sweep.trials import Trials

_OF_ONE_POD = (
    "no-code", "cache", "image", "run-as-user", "writable-root", "env", "secret", "egress", "volume", "queue",
    "priority", "cpu", "memory", "pool", "platform",
)  # fmt: skip
"""Options of the trials that the command's run gets, too: it is one pod without GPUs."""


def options_of(plan: Plan) -> tuple[str, ...]:
    """Return the words for `athanor run` that describe the command's run."""
    kept = {f"--{name}" for name in _OF_ONE_POD}
    return ("--kind=batch", *(word for word in plan.options if word.partition("=")[0] in kept))


def run_then(plan: Plan, trials: Trials, runs: Runs, warn: Callable[[str], None]) -> bool:
    """Run the command of --then, unless an earlier client has; return whether it completed.

    Args:
        plan: The sweep, with such a command.
        trials: All ended, at least one completed.
        runs: That start with `options_of`.
        warn: Shows a line.

    Raises:
        StartError: the run could not be started.
        RefusalError: the cluster does not answer.
    """
    best = trials.best()
    assert best is not None
    place = trials.place(best)
    own = {FOLDER: f"{OUTPUT_PATH}/{place.job if place else ''}", RUN: trials.run(best)}
    program, name, said = fill(plan.then, {**trials.values(best), **own}), plan.then_run, ""
    while True:
        look = runs.look(name, None)
        if look.phase == LOST:
            runs.start(name, program)
        elif look.phase == GONE:
            raise StartError(f"run {name} has no job any more: `athanor delete {name}`, then --resume {plan.name}")
        if look.phase != said:
            said = look.phase
            warn(f"{name}: {said} (then: {shlex.join(program)})")
        if look.phase in ENDED:
            return look.phase == COMPLETED
        runs.wait()
