"""The pace of a run, checkpoints and evaluations included, and its expected end."""

from __future__ import annotations

import time
from collections import deque

_RECENT_STEPS = 200


class Pace:
    """The times at which the latest steps ended.

    The first step of a process is where the time begins: what comes before it, such as compiling and meeting the other
    ranks, does not happen again.
    """

    def __init__(self, total_steps: int) -> None:
        self._total_steps = total_steps
        self._ends: deque[tuple[int, float]] = deque(maxlen=_RECENT_STEPS)

    def on_step(self, step: int) -> None:
        """Take note that a step ends now."""
        self._ends.append((step, time.monotonic()))

    def seconds_left(self) -> float | None:
        """Return the time to the last step at the pace of the latest ones; None before the second step."""
        if not self._ends:
            return None
        (first, begin), (latest, end) = self._ends[0], self._ends[-1]
        if latest == first:
            return None
        return (end - begin) / (latest - first) * (self._total_steps - latest)
