"""The client of an HTTP connection: detection of its departure, and cancellation of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class HttpClient:
    """One per connection; HTTP/1.1 answers the requests of a connection one after another, so one at most waits."""

    def __init__(self) -> None:
        self._gone = False
        self._waits_for: asyncio.Future[Any] | None = None

    @property
    def gone(self) -> bool:
        """Nobody hears an answer."""
        return self._gone

    def leave(self) -> None:
        """Say that the connection is lost; cancels what the client waits for."""
        self._gone = True
        if self._waits_for is not None:
            self._waits_for.cancel()

    def expect(self, answer: asyncio.Future[Any]) -> None:
        """Cancel an answer when the client leaves before `served` is called."""
        self._waits_for = answer

    def served(self) -> None:
        """Forget the awaited answer."""
        self._waits_for = None
