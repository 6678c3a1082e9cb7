"""Comparison of the options of `athanor dev` with those that an existing pod was started with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from athanor.run.description import seconds_of
from athanor.run.options import OPTIONS
from athanor.run.recorded import recorded
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from athanor.run.description import Description

_OF_THE_POD = (
    "gpus",
    "cpu",
    "memory",
    "shared_memory",
    "pool",
    "selector",
    "toleration",
    "cache",
    "image",
    "run_as_user",
    "writable_root",
    "env",
    "secret",
    "egress",
    "volume",
    "queue",
    "priority",
    "deadline",
    "max_restarts",
)
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def check_same(
    arguments: argparse.Namespace, described: Description, outputs: Mapping[str, str], job: Mapping[str, Any]
) -> None:
    """Refuse options that the pod of a folder does not have: they would be taken for granted, and not be there.

    Args:
        arguments: What was typed; options that were not count as equal.
        described: The pod that it describes.
        outputs: What the stack of the pod that exists has recorded.
        job: The job of that pod.

    Raises:
        RefusalError: with both values of each.
    """
    before: dict[str, str] = json.loads(outputs.get("arguments") or "{}")
    now = recorded(described)
    given = vars(arguments)
    others: dict[str, tuple[object, str]] = {}
    for each in _OF_THE_POD:
        option = f"--{each.replace('_', '-')}"
        fields = [field for field, name in OPTIONS.items() if name == option]
        if _is_typed(given[each]) and any(_of(before, field) != _of(now, field) for field in fields):
            has = " ".join(filter(None, (_of(before, field) for field in fields))) or "the default"
            others[option] = (given[each], f"with {has}")
    if arguments.idle is not None and seconds_of("--idle", arguments.idle) != idle_seconds(job):
        others["--idle"] = (arguments.idle, f"which ends after {in_words(idle_seconds(job))}")
    if others:
        raise _differs(others, described.name)


def _is_typed(value: object) -> bool:
    """Return whether an option has a value from the command line, which may be 0."""
    return value is not None and value is not False and value != []


def _of(arguments: Mapping[str, str], field: str) -> str:
    """Return the recorded value of a field or of a field inside it; empty for the default."""
    names = sorted(name for name in arguments if name == field or name.startswith(f"{field}."))
    return " ".join(arguments[name] for name in names)


def _differs(others: Mapping[str, tuple[object, str]], name: str) -> RefusalError:
    """Return the refusal that names all options that the pod does not have, so that none has to be found by trying."""
    pod, end = f"this folder has a pod already, {name}", f"or end that pod first: athanor dev --stop --name {name}"
    if len(others) == 1:
        [(option, (value, has))] = others.items()
        return RefusalError(option, value, f"{pod}, {has}", f"omit it to connect, {end}")
    values = "; ".join(f"{option} {value}: {has}" for option, (value, has) in others.items())
    return RefusalError("options", " ".join(others), f"{pod} ({values})", f"omit them to connect, {end}")


def idle_seconds(job: Mapping[str, Any]) -> int:
    """Return after how many seconds without a client a pod ends: the last word of its program (keeper.py)."""
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return int([*container.get("command", ()), *container.get("args", ())][-1])


def in_words(seconds: int) -> str:
    """Return a time as --idle takes it, such as 90m."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds % size == 0), ("s", 1))
    return f"{seconds // size}{unit}"
