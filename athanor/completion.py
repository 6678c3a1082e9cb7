"""`athanor completion`: shell completion of commands, options, choices and runs, derived from the parser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import shtab

from athanor.command_line import parser
from infra.workload_labels import JOB_LABEL, OWNER_LABEL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_LABELS = f"{OWNER_LABEL},{JOB_LABEL}"
_RUNS = (
    f"kubectl get jobs.batch.volcano.sh --no-headers --request-timeout=1s --label-columns={_LABELS} 2>/dev/null"
    " | sed -n 's/.* athanor-runs-[^ ]* *//p'"
)
"""Prints the names of the runs in the current context's namespace, in each shell and without starting Python; their
stacks would take seconds. The label of a run's owner begins with the project of all runs (athanor/runs/stack.py)."""
_KINDS = {"FILE": shtab.FILE, "FOLDER": shtab.DIRECTORY, "RUN": shtab.cmd(_RUNS)}
"""Kinds of arguments, by their names in the help."""


def run(arguments: argparse.Namespace) -> int:
    """Print the script; return 0."""
    whole = parser()
    for action in _arguments(whole):
        if action.metavar in _KINDS:
            action.complete = _KINDS[action.metavar]  # pyright: ignore[reportAttributeAccessIssue]
    sys.stdout.write(shtab.complete(whole, arguments.shell) + "\n")
    return 0


def _arguments(of: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in of._actions:  # noqa: SLF001 - argparse has no other way to ask
        yield action
        if isinstance(action.choices, dict):
            for each in cast("dict[str, argparse.ArgumentParser]", action.choices).values():
                yield from _arguments(each)
