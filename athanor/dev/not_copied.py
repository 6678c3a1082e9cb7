"""Files in a synchronised folder that are not copied, such as a large log: left alone on both sides, reported once.

Without this, a file that grows too large would look as if it had been deleted.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_HERE, _IN_THE_POD = "here", "in the pod"
_MOST_NAMES = 3
"""Most names in a message: the first start in a folder may leave out hundreds of pictures."""


class LeftAlone:
    """The names that are left alone; each of them stands for what lies below it, too."""

    def __init__(self, say: Callable[[str], None], may_arrive: Callable[[str], bool]) -> None:
        """Begin with none.

        Args:
            say: Shows which are new.
            may_arrive: Whether a file of the pod belongs here: of others nobody expects a copy.
        """
        self._say, self._may_arrive = say, may_arrive
        self._reasons: dict[tuple[str, str], str] = {}
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether a name, or a folder above it, is left alone."""
        return name in self._names or (
            bool(self._names) and any(str(parent) in self._names for parent in PurePosixPath(name).parents)
        )

    def __bool__(self) -> bool:
        """Return whether anything is left alone that somebody expects on both sides."""
        return bool(self._names)

    def note(self, here: Mapping[str, str], there: Mapping[str, str], expected: Iterable[str]) -> None:
        """Take the place of what was left alone before, and say what is new.

        Args:
            here: Why names of this machine are left alone.
            there: The same of the pod.
            expected: Names that somebody would look for on both sides.
        """
        reasons = {(name, _HERE): why for name, why in here.items()}
        reasons |= {(name, _IN_THE_POD): why for name, why in there.items()}
        new = {key: why for key, why in reasons.items() if self._reasons.get(key) != why}
        self._reasons, self._names = reasons, {*here, *there}
        if new:
            self._name(new, {parent for name in expected for parent in _with_parents(name)})

    def _name(self, new: Mapping[tuple[str, str], str], expected: set[str]) -> None:
        groups: dict[str, list[str]] = defaultdict(list)
        for (name, where), why in sorted(new.items()):
            if where == _HERE or name in expected:
                groups[f"not copied ({why} {where})"].append(name)
            elif self._may_arrive(name):
                groups[f"stays in the pod ({why})"].append(name)
        for beginning, names in groups.items():
            more = len(names) - _MOST_NAMES
            words = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
            self._say(printable(f"{beginning}: {words}"))


def _with_parents(name: str) -> list[str]:
    return [name, *map(str, PurePosixPath(name).parents)]
