"""One parameter of a sweep: the values that it may take, as a list or as a range."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from infra.errors import RefusalError

MOST_POINTS = 1000
"""Most points of a parameter and of a whole grid; also the most trials of a sweep."""
NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_RANGE = re.compile(r"(?P<low>[^,:]+?)\.\.(?P<high>[^,:]+?)(?::(?P<how>[^,:]+))?")
_WHOLE = re.compile(r"[+-]?\d{1,15}")
_LIST_HELP = "list values, such as 0.1,0.01, or give a range, such as 0.001..0.1:log or 2..8"


class Parameter(BaseModel):
    """A list of values, or a range of numbers with its limits included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    choices: tuple[str, ...] = ()
    """Values as they are written into the command; empty for a range."""
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    """The largest value, which is reached from `low` in whole steps if there are steps."""
    step: Decimal | None = None
    log: bool = False
    """Whether factors are equally likely, rather than differences."""
    whole: bool = False
    """Whether all values are whole numbers."""

    @property
    def sample(self) -> str:
        """A value that it may take."""
        return self.choices[0] if self.choices else str(self.low)

    def points(self) -> tuple[str, ...]:
        """Return all values, for a grid.

        Raises:
            RefusalError: they are not countable, or more than MOST_POINTS.
        """
        if self.choices:
            return self.choices
        if self.step is None or self.log:
            limit = "a range without a step has no points for a grid"
            fix = f"list values, such as {self.name}={self.low},{self.high}, or use --search random or tpe"
            raise RefusalError(self.name, self.text, limit, fix)
        count = int((self.high - self.low) / self.step) + 1
        if count > MOST_POINTS:
            limit = f"has {count} points, and a grid may have {MOST_POINTS}"
            raise RefusalError(self.name, self.text, limit, "use a larger step, or --search random or tpe")
        return tuple(_plain(self.low + number * self.step) for number in range(count))

    @property
    def text(self) -> str:
        """The values as --param takes them."""
        if self.choices:
            return ",".join(self.choices)
        how = ":log" if self.log else f":{self.step}" if self.step is not None else ""
        return f"{self.low}..{self.high}{how}"


def read_parameter(words: str) -> Parameter:
    """Return the parameter of NAME=VALUE,VALUE… or NAME=LOW..HIGH[:log|:STEP].

    Raises:
        RefusalError: it cannot be searched.
    """
    name, _, text = words.partition("=")
    check_name(name, words)
    matched = _RANGE.fullmatch(text)
    if matched is None or not (_is_number(matched["low"]) and _is_number(matched["high"])):
        return listed(name, text.split(","))
    how = matched["how"]
    return ranged(name, matched["low"], matched["high"], step=None if how == "log" else how, log=how == "log")


def check_name(name: str, given: str) -> None:
    """Refuse what could not be in braces in a command.

    Raises:
        RefusalError: quoting what was given.
    """
    if not re.fullmatch(NAME, name):
        limit = "must be NAME=VALUES, where the name has letters, digits, - and _ and does not begin with a digit"
        raise RefusalError("--param", given, limit, "write, for example, lr=0.1,0.01")


def listed(name: str, values: list[str]) -> Parameter:
    """Return the parameter of a list of values.

    Raises:
        RefusalError: the values are fewer than two, equal or empty.
    """
    if "" in values or len(values) < 2:
        one = "is not a range of numbers" if ".." in values[0] else "has a single value, which needs no search"
        limit = "has an empty value" if "" in values else one
        raise RefusalError(name, ",".join(values), limit, f"{_LIST_HELP}; a fixed value belongs in the command")
    repeated = next((value for value in values if values.count(value) > 1), None)
    if repeated is not None:
        raise RefusalError(name, repeated, "is listed twice, and would run twice", "list it once")
    return Parameter(name=name, choices=tuple(values))


def ranged(name: str, low: str, high: str, *, step: str | None = None, log: bool = False) -> Parameter:
    """Return the parameter of a range; it has whole numbers if both limits are, and then steps of 1.

    Raises:
        RefusalError: a limit or step is not a number, or they do not fit together.
    """
    text = f"{low}..{high}"
    first, last = _number(name, low), _number(name, high)
    whole = all(_WHOLE.fullmatch(each) for each in (low, high))
    if first >= last:
        raise RefusalError(name, text, "has no values: the first limit must be the smaller one", f"write {high}..{low}")
    if log and first <= 0:
        fix = f"begin above 0, such as {name}=0.001..{high}:log, or omit the log scale"
        raise RefusalError(name, text, "a log scale has no values at or below 0", fix)
    if log and step is not None:
        raise RefusalError(name, f"{text}:{step}", "a log scale has no steps", "omit one of the two")
    size = Decimal(1) if whole and step is None and not log else None if step is None else _number(name, step)
    if size is None:
        return Parameter(name=name, low=first, high=last, log=log, whole=whole)
    if not 0 < size <= last - first:
        limit = f"the step {step} must be above 0 and at most {last - first}, the length of the range"
        raise RefusalError(name, f"{text}:{step}", limit, "choose a smaller step, or list the values")
    whole = whole and size == int(size)
    # The last value is one that can be reached: a larger limit would only sound like one.
    return Parameter(name=name, low=first, high=first + (last - first) // size * size, step=size, whole=whole)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _number(name: str, text: str) -> Decimal:
    if not _is_number(text):
        raise RefusalError(name, text, "is not a number", "write numbers, such as 1e-4, for limits and steps")
    return Decimal(text.strip())


def _plain(value: Decimal) -> str:
    """Return a number as Python writes it, without .0 where it is whole: 0.3, 1e-05, 2."""
    return repr(float(value)).removesuffix(".0")
