"""Overlap of two reads of a log, so that no line is printed twice and none is lost.

A log is read from a start time, which an API server takes in whole seconds (Kubernetes, metav1.Time). Lines of those
seconds that were read before are recognised by their text and time: the two streams of a container are not strictly in
the order of their times, and after a rotation of the file, a log begins later than requested.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

_SECOND = len("2026-01-01T10:00:00")
_OFFSET = len("+08:00")


class LastSeconds:
    """The lines of the last second that has any, and of the one before."""

    def __init__(self) -> None:
        """Begin with a log of which nothing was read."""
        self._lines: dict[str, Counter[str]] = {}
        self._repeated: Counter[str] = Counter()

    @property
    def since(self) -> str | None:
        """From when on the log is to be read again, RFC 3339 in whole seconds; None: from its beginning."""
        return min(self._lines, key=datetime.fromisoformat, default=None)

    def begin_again(self) -> None:
        """Note that the lines from `since` on come once more."""
        self._repeated = Counter()
        for lines in self._lines.values():
            self._repeated.update(lines)

    def is_new(self, time: str, line: str) -> bool:
        """Return whether a line was not read before, and take it as read.

        Args:
            time: When it was printed, RFC 3339.
            line: All of it, with its time.
        """
        if self._repeated[line] > 0:
            self._repeated[line] -= 1
            return False
        self._note(line, time[:_SECOND] + ("Z" if time.endswith("Z") else time[-_OFFSET:]))
        return True

    def _note(self, line: str, second: str) -> None:
        if second not in self._lines:
            self._lines[second] = Counter()
            if len(self._lines) > 2:
                del self._lines[min(self._lines, key=datetime.fromisoformat)]
        if second in self._lines:
            self._lines[second][line] += 1
