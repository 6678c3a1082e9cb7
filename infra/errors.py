"""How the project refuses bad input: the field, the value, the limit, the fix, in one line."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from collections.abc import Iterable


class RefusalError(pulumi.RunError, ValueError):
    """Input that cannot work, found before anything was created.

    A RunError, because the engine prints such a one's message alone; any other exception it buries under a traceback.
    """

    def __init__(self, field: str, value: object, limit: str, fix: str) -> None:
        self.field = field
        self.value = value
        self.limit = limit
        self.fix = fix
        super().__init__(f"{field} = {value!r}: {limit}. Fix: {fix}")


def choices(value: str, valid: Iterable[str]) -> str:
    """Word a fix for a name that does not exist: the near ones if there are any, else all of them."""
    names = sorted(valid)
    if not names:
        return "there is none to choose from"
    near = difflib.get_close_matches(value, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"use one of {', '.join(names)}"
