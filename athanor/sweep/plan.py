"""The plan of a sweep, checked before anything starts, and saved for --resume."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict

from athanor.sweep.parameter import MOST_POINTS, Parameter
from athanor.sweep.space import check_grid, check_template, read_space
from athanor.sweep.then_option import read_then
from infra.errors import RefusalError
from workloads.checks import check_name, check_range

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

MOST_PARALLEL = 32
"""kubectl asks for each running trial in turn."""
_OPTIONS = (
    "kind", "no_code", "prepare", "requirements", "cache", "image", "run_as_user", "writable_root", "env",
    "secret", "egress", "volume", "queue", "deadline", "max_restarts", "priority", "workers", "elastic", "gpus",
    "processes", "cpu", "memory", "pool", "platform",
    "git", "git_secret", "git_folder", "ps", "ps_cpu", "ps_memory", "shared_memory", "selector", "toleration",
)  # fmt: skip
"""Options of `athanor run`, which every trial gets; the name and the folder are the sweep's."""


class Plan(BaseModel):
    """A sweep as it was asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    program: tuple[str, ...]
    """The command, with {placeholders}."""
    options: tuple[str, ...]
    """Words for `athanor run`."""
    cluster: dict[str, str | None]
    """Options that name the cluster to any command about runs, without dashes; None stands for one that is not set."""
    space: tuple[Parameter, ...]
    search: Literal["grid", "random", "tpe"]
    trials: int
    parallel: int
    metric: str
    goal: Literal["minimize", "maximize"]
    stop_early: Literal["median"] | None
    stop_early_after: int
    """Number of trials that must have completed before one is stopped."""
    then: tuple[str, ...] = ()
    """The command that runs once at the end, with {placeholders}; none by default."""

    @property
    def then_run(self) -> str:
        """The name of its run."""
        return f"{self.name}-then"

    @property
    def cluster_words(self) -> list[str]:
        """Options that name the cluster on a command line."""
        return list(_words(self.cluster))

    def with_changes(self, trials: int | None, parallel: int | None, then: str | None) -> Plan:
        """Return the plan with other numbers or a command for its end, as --resume takes them; None keeps one.

        Raises:
            RefusalError: as `read_plan`, or it has another such command.
        """
        command = read_then(then, self.space)
        if self.then and command not in {(), self.then}:
            fix = f"omit it, or run yours with `athanor run`; the sweep's is {shlex.join(self.then)!r}"
            raise RefusalError("--then", then, "the sweep has another", fix)
        changes = {"trials": trials, "parallel": parallel, "then": command or None}
        changed = self.model_copy(update={name: value for name, value in changes.items() if value is not None})
        check_range("--parallel", changed.parallel, 1, MOST_PARALLEL)
        _trials(changed.search, changed.space, changed.trials)
        _check_names(changed.name, changed.trials)
        return changed


def read_plan(given: argparse.Namespace, name: str) -> Plan:
    """Return the plan of a command line; its cluster is not named yet.

    Args:
        given: as athanor/sweep/arguments.py parses it.
        name: The sweep's.

    Raises:
        RefusalError: no trial could run, or not as many as asked for.
    """
    space = read_space(given.param, given.space)
    check_template(given.program, space)
    parallel = given.parallel if given.parallel is not None else 1
    check_range("--parallel", parallel, 1, MOST_PARALLEL)
    check_range("--stop-early-after", given.stop_early_after, 1, MOST_POINTS)
    trials = _trials(given.search, space, given.trials)
    _check_names(name, trials)
    then = read_then(given.then, space)
    options = {option: getattr(given, option) for option in _OPTIONS}
    return Plan(
        name=name, program=tuple(given.program), options=tuple(_words(options)), cluster={},
        space=space, search=given.search, trials=trials, parallel=parallel, metric=given.metric, goal=given.goal,
        stop_early=given.stop_early, stop_early_after=given.stop_early_after, then=then,
    )  # fmt: skip


def _trials(search: str, space: tuple[Parameter, ...], trials: int | None) -> int:
    if search != "grid":
        if trials is None:
            limit = f"must be given for --search {search}, which has no natural end"
            raise RefusalError("--trials", None, limit, "choose how many, such as --trials 20, or use --search grid")
        check_range("--trials", trials, 1, MOST_POINTS)
        return trials
    points = check_grid(space)
    if trials is not None and trials != points:
        limit = f"the grid has {points} points, and all of them are tried"
        fix = "omit --trials, list other values, or use --search random or tpe"
        raise RefusalError("--trials", trials, limit, fix)
    return points


def _check_names(name: str, trials: int) -> None:
    """Refuse a sweep whose trials could not be named; the last has the longest name."""
    check_name("--name", name)
    check_name("name of the last trial", run_name(name, trials - 1))
    check_name("name of the run of --then", f"{name}-then")


def run_name(sweep: str, number: int) -> str:
    """Return the name of a trial's run."""
    return f"{sweep}-{number}"


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as a command line has them, without those that are not set."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            yield from [option] * value
            continue
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if each is not None:
                yield f"{option}={'='.join(cast('tuple[str, str]', each)) if isinstance(each, tuple) else each}"
