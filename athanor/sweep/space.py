"""The search space of a sweep, from options or a file, and the command that takes its values."""

from __future__ import annotations

import math
import re
from itertools import starmap
from typing import TYPE_CHECKING, cast

from athanor.run.yaml_text import read_yaml_text
from athanor.sweep.parameter import MOST_POINTS, NAME, Parameter, check_name, listed, ranged, read_parameter
from infra.errors import RefusalError, choices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLACEHOLDER = re.compile(rf"(?<!\$)\{{({NAME})\}}")
"""{lr}, but not a shell's ${HOME}; all other braces stay as they are."""
_KEYS = {"low", "high", "step", "log"}


def read_space(words: Sequence[str], file: str | None) -> tuple[Parameter, ...]:
    """Return the parameters of --param and of --space.

    Raises:
        RefusalError: there are none, one cannot be searched, or two have the same name.
    """
    of_file = () if file is None else starmap(_of_entry, read_yaml_text("--space", file).items())
    parameters = [*of_file, *map(read_parameter, words)]
    if not parameters:
        fix = "give at least one, such as --param lr=0.1,0.01, or a file with --space"
        raise RefusalError("--param", "", "a sweep without parameters has nothing to search", fix)
    names = [parameter.name for parameter in parameters]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise RefusalError("--param", repeated, "is given twice", "give all its values at once")
    return tuple(parameters)


def check_grid(space: Sequence[Parameter]) -> int:
    """Return the number of a grid's points.

    Raises:
        RefusalError: they are too many, or those of a parameter cannot be counted.
    """
    count = math.prod(len(parameter.points()) for parameter in space)
    if count > MOST_POINTS:
        sizes = ", ".join(f"{parameter.name}: {len(parameter.points())}" for parameter in space)
        limit = f"the grid has {count} points ({sizes}), and may have {MOST_POINTS}"
        raise RefusalError("--search", "grid", limit, "list fewer values, or use --search random or tpe with --trials")
    return count


def check_template(program: Sequence[str], space: Sequence[Parameter]) -> None:
    """Refuse a command that has another parameter, or lacks one.

    Raises:
        RefusalError: naming it.
    """
    names = [parameter.name for parameter in space]
    used = check_placeholders("command", program, names)
    for name in names:
        if name not in used:
            limit = "the command does not use this parameter, so its values would have no effect"
            raise RefusalError(
                "--param", name, limit, f"write {{{name}}} where its value goes, such as --{name} {{{name}}}"
            )


def check_placeholders(what: str, program: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the names of a command's placeholders.

    Raises:
        RefusalError: one is not among the names.
    """
    used = {name for word in program for name in _PLACEHOLDER.findall(word)}
    for name in sorted(used.difference(names)):
        limit = "the command has this placeholder, but the sweep has no parameter of that name"
        raise RefusalError(what, f"{{{name}}}", limit, f"{choices(name, names)} Or add --param {name}=…")
    return used


def fill(program: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the command with values in place of {placeholders}."""
    return [_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in program]


def _of_entry(name: str, value: object) -> Parameter:
    check_name(name, name)
    if isinstance(value, list):
        return listed(name, [_scalar(name, each) for each in cast("list[object]", value)])
    if not isinstance(value, dict):
        raise RefusalError(name, value, "must be a list of values or a range", "write [0.1, 0.01] or {low: 1, high: 8}")
    given = cast("dict[str, object]", value)
    unknown = next((key for key in given if key not in _KEYS), None)
    if unknown is not None or not {"low", "high"} <= given.keys():
        limit = "must have low and high, and may have step or log" + (f", not {unknown}" if unknown is not None else "")
        raise RefusalError(name, given, limit, "write {low: 0.001, high: 0.1, log: true}")
    numbers = {key: _scalar(name, number) for key, number in given.items() if key != "log"}
    log = given.get("log", "false")
    if log not in {"true", "false"}:
        raise RefusalError(f"{name}.log", log, "must be true or false", "write log: true, or omit it")
    return ranged(name, numbers["low"], numbers["high"], step=numbers.get("step"), log=log == "true")


def _scalar(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RefusalError(name, value, "must be text or a number here", "write it in quotes if it is text")
    return value
