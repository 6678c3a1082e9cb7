"""The other end of an HTTP connection: whether it is still there, and what stops when it leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from trainer.serve.errors import ClientDisconnectedError

if TYPE_CHECKING:
    from collections.abc import Awaitable

_Answer = TypeVar("_Answer")


class HttpClient:
    """One per connection; HTTP/1.1 answers the requests of a connection one after another, so one at most waits."""

    def __init__(self) -> None:
        self._gone = False
        self._waiting: asyncio.Task[object] | None = None

    def leave(self) -> None:
        """Say that the connection is lost; cancels what waits in `wait_for`."""
        self._gone = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def wait_for(self, answer: Awaitable[_Answer]) -> _Answer:
        """Await an answer for as long as the client does.

        Raises:
            ClientDisconnectedError: it left, and `answer` was cancelled.
        """
        self._waiting = asyncio.current_task()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._gone:
                raise ClientDisconnectedError from None
            raise
        finally:
            self._waiting = None
