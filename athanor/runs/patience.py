"""Timeouts of commands that keep watching a cluster: API servers restart, and networks fail."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")
MINUTES = 5
_AWAY_SECONDS = 3.0
"""Between two questions to a cluster that does not answer."""


class Patience:
    """Counts the time since the last answer. Where a machine sleeps, its clock does too, and so nothing is counted."""

    def __init__(self, say: Callable[[str], object] | None = None) -> None:
        """Begin with a cluster that answers.

        Args:
            say: Takes one line when the answers stop, and one when they are back.
        """
        self._say = say
        self._since: float | None = None

    def answer(self, ask: Callable[[], Result]) -> Result:
        """Ask until there is an answer; return it.

        Raises:
            RefusalError: the cluster has left this question open for MINUTES.
        """
        while True:
            try:
                answer = ask()
            except RefusalError as refusal:
                self.missed(refusal)
                sleep(_AWAY_SECONDS)
            else:
                self.answered()
                return answer

    def missed(self, refusal: RefusalError) -> None:
        """Note that the cluster left a question open.

        Raises:
            RefusalError: the same, which has gone on for MINUTES.
        """
        if self._since is None:
            self._since = monotonic()
            self._tell(f"the cluster does not answer, waiting up to {MINUTES} minutes: {refusal.limit}")
        elif monotonic() - self._since >= MINUTES * 60:
            raise refusal

    def answered(self) -> None:
        """Note that the cluster answered."""
        if self._since is not None:
            self._since = None
            self._tell("the cluster answers again")

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)
