"""Remaining time of a run: the duration of each step, and the background work that it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TimeLeft:
    """The estimate of one run. All times are seconds, moments those of `time.monotonic`."""

    def __init__(self, steps: Sequence[str], expected: Mapping[str, float]) -> None:
        self.steps = list(steps)
        self._ahead = list(steps)
        self._expected = dict(expected)
        self._not_before: dict[str, float] = {}
        self._running = ""
        self._begun = 0.0
        self._share = 0.0

    def begin(self, step: str, now: float) -> None:
        """Take note that a step runs; those before it are over, whether they ran or not."""
        if step in self._ahead:
            del self._ahead[: self._ahead.index(step)]
        self._running, self._begun, self._share = step, now, 0.0

    def end(self, step: str) -> None:
        """Take note that a step is over."""
        self._running = ""
        if self._ahead[:1] == [step]:
            del self._ahead[0]

    def advance(self, share: float) -> None:
        """Take note of how much of the running step is done, 0..1."""
        self._share = share

    def wait_until(self, step: str, moment: float) -> None:
        """Say when that will be there which a step waits for before its own work."""
        self._not_before[step] = moment

    def left(self, now: float, until: str = "") -> float | None:
        """Return the seconds to the end of the step `until`, or of all; None if a step ahead is an unknown one."""
        if not self._ahead:
            return None
        total = 0.0
        for step in self._ahead:
            needed = self._expected.get(step)
            if needed is None:
                return None
            if step == self._running:
                needed = still_needed(needed, now - self._begun, self._share)
            total = max(total, self._not_before.get(step, now) - now) + needed
            if step == until:
                break
        return total


def still_needed(expected: float, elapsed: float, share: float) -> float:
    """Return the seconds that work still needs of which `share` (0..1) is done after `elapsed` seconds.

    The more of it is done, the more counts how long that took, and the less how long all of it was expected to take.
    Where the share is unknown it is 0, and what is left is what was expected less what has passed.
    """
    if share <= 0:
        return max(0.0, expected - elapsed)
    return (1 - share) * ((1 - share) * expected + elapsed)
