"""Errors that refuse bad input: the field, the value, the limit and the fix, in one line."""

from __future__ import annotations

import difflib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST_VALUE = 200
"""Characters of a value that a message quotes: a variable may hold a whole file."""


class RefusalError(ValueError):
    """Input that cannot work, found before anything was created.

    In a program of the engine it is a pulumi.RunError as well: the engine prints the message of those alone, and buries
    any other exception under a traceback. Programs that have not imported the SDK, which takes half a second, need not
    do so to be refused.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - each subclass has its own
        """Return an instance of this class, which the engine knows wherever there can be one."""
        return cast("Self", ValueError.__new__(_run_error(cls) if "pulumi" in sys.modules else cls))

    def __init__(self, field: str, value: object, limit: str, fix: str) -> None:
        self.field = field
        self.value = value
        self.limit = limit
        self.fix = fix
        super().__init__(f"{field} = {_shortened(value)}: {limit}. Fix: {fix}")


def _shortened(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python converts no number of more than 4300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


@cache
def _run_error(refusal: type[RefusalError]) -> type[RefusalError]:
    from pulumi import RunError  # noqa: PLC0415 - it is imported already

    return type(refusal.__name__, (refusal, RunError), {"__module__": refusal.__module__, "__doc__": refusal.__doc__})


def choices(value: str, valid: Iterable[str]) -> str:
    """Word a fix for a name that does not exist: the near ones if there are any, else all of them."""
    names = sorted(valid)
    if not names:
        return "there is none to choose from"
    near = difflib.get_close_matches(value, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"use one of {', '.join(names)}"
