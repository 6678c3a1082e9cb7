"""Starts, continues or deletes a saved sweep. Needs optuna."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from athanor.runs.cluster import Cluster
from athanor.runs.ending import FAILED, INTERRUPTED
from athanor.runs.job import COMPLETED, ENDED
from athanor.runs.location import all_runs
from athanor.sweep.loop import Sweep
from athanor.sweep.plan import run_name
from athanor.sweep.runs import GONE, LOST, ClusterRuns, StartError
from athanor.sweep.space import fill
from athanor.sweep.table import lines, live, table, to_json
from athanor.sweep.then_option import FOLDER, RUN
from athanor.sweep.trials import Trials
from infra.errors import RefusalError
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from athanor.sweep.plan import Plan
    from athanor.sweep.runs import Runs
    from athanor.sweep.sweep_folder import SweepFolder

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


_DELETIONS = 4
"""At a time: each is an engine of its own."""


def continue_sweep(kept: SweepFolder, plan: Plan, *, as_json: bool) -> int:
    """Work on a sweep until it ends; return the exit status.

    Raises:
        RefusalError: the cluster does not answer, another client works on it, or the first trials failed.
    """
    with kept.locked() as lock:
        kept.save(plan)
        trials = Trials(plan, kept.journal)
        is_terminal = sys.stderr.isatty()
        show = live if is_terminal else lines
        title = f"sweep {plan.name}: {plan.search}, {plan.trials} trials, {plan.parallel} at a time"
        sweep = Sweep(
            plan=plan, trials=trials, runs=ClusterRuns(_cluster(plan), plan, kept, lock),
            show=show(plan.metric, title), warn=_warn,
        )  # fmt: skip
        try:
            sweep.work()
        except StartError as error:
            return _not_started(kept, trials, plan, error)
        except KeyboardInterrupt:
            _warn(f"\ndetached: running trials continue, no new ones start until `athanor sweep --resume {plan.name}`")
            return INTERRUPTED
        except RefusalError:
            if trials.running():
                _warn(f"running trials continue; to continue the sweep: athanor sweep --resume {plan.name}")
            raise
        rows = sweep.rows()
        if not as_json and not (is_terminal and sys.stdout.isatty()):  # where the last table is still on the screen
            sys.stdout.writelines(f"{line}\n" for line in table(rows, plan.metric))
        try:
            then = _then(kept, plan, trials, lock) if trials.best() is not None else None
        except KeyboardInterrupt:
            _warn(f"\ndetached: {plan.then_run} keeps running; `athanor sweep --resume {plan.name}` waits for it again")
            return INTERRUPTED
        if as_json:
            sys.stdout.write(json.dumps(to_json(plan.name, rows, then)) + "\n")
        return 0 if trials.best() is not None and (then is None or then["completed"]) else FAILED


def _then(kept: SweepFolder, plan: Plan, trials: Trials, lock: int) -> dict[str, Any] | None:
    """Run the command of --then; return its run and whether it completed, or None without one."""
    if not plan.then:
        return None
    runs = ClusterRuns(_cluster(plan), plan.model_copy(update={"options": options_of(plan)}), kept, lock)
    try:
        completed = run_then(plan, trials, runs, _warn)
    except StartError as error:
        _warn(f"athanor sweep: {error}")
        completed = False
    return {"run": plan.then_run, "completed": completed}


def check_names_are_free(plan: Plan) -> None:
    """Refuse a new sweep whose trials would have the names of runs that exist.

    Raises:
        RefusalError: naming one of them.
    """
    names = {run_name(plan.name, number) for number in range(plan.trials)}
    taken = {*names, *([plan.then_run] if plan.then else [])}.intersection(all_runs())
    if taken:
        limit = f"a run of the sweep would have the name of your run {min(taken)}"
        raise RefusalError("--name", plan.name, limit, f"choose another, or `athanor delete {min(taken)}` first")


def _not_started(kept: SweepFolder, trials: Trials, plan: Plan, error: StartError) -> int:
    _warn(f"athanor sweep: {error}")
    if any(trials.place(trial.number) for trial in trials.all()):
        _warn(f"running trials continue; to start the others: athanor sweep --resume {plan.name}")
    else:
        kept.remove()
    return FAILED


def delete(kept: SweepFolder, plan: Plan) -> int:
    """Delete the runs of a sweep and what is kept of it; return the exit status.

    Raises:
        RefusalError: another client works on it, or a run could not be deleted.
    """
    with kept.locked() as lock:
        trials = Trials(plan, kept.journal)
        runs, existing = ClusterRuns(_cluster(plan), plan, kept, lock), set(all_runs())
        names = [*(trials.run(trial.number) for trial in trials.all()), *([plan.then_run] if plan.then else [])]
        waiting = [name for name in names if name in existing]
        deleting: set[str] = set()
        while waiting or deleting:
            while waiting and len(deleting) < _DELETIONS:
                deleting.add(name := waiting.pop())
                runs.delete(name)
            runs.wait()
            for name, wrong in runs.deleted().items():
                deleting.discard(name)
                if wrong:
                    raise RefusalError("run", name, f"was not deleted: {wrong}", "try again")
        kept.remove()
    _warn(f"deleted: sweep {plan.name}")
    return 0


def _cluster(plan: Plan) -> Cluster:
    return Cluster.of(argparse.Namespace(**plan.cluster))


def _warn(words: str) -> None:
    sys.stderr.write(f"{words}\n")
