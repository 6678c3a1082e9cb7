"""The end of gRPC streams at shutdown: gRPC would cut them in the middle of an answer, and without a reason."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from trainer.serve.errors import RequestError, unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_Event = TypeVar("_Event")


class Streams:
    """The streams of a server; every method belongs to the event loop's thread."""

    def __init__(self, max_age_seconds: float) -> None:
        """End a stream of that age."""
        self._max_age_seconds = max_age_seconds
        self._stopping = False
        self._waiting: set[asyncio.Timeout] = set()
        """Of streams that wait for what is to be answered next."""

    def stop(self) -> None:
        """End each stream: at once where nothing is to be answered, else after the answer that is under way."""
        self._stopping = True
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(asyncio.get_running_loop().time())

    async def until_the_end(self, events: AsyncIterator[_Event]) -> AsyncIterator[_Event]:
        """Yield the items to answer on a new stream, such as its client's requests.

        Raises:
            RequestError: 503, the stream is to end before the next one.
        """
        due = asyncio.get_running_loop().time() + self._max_age_seconds
        while True:
            try:
                event = await self._next(events, due)
            except TimeoutError:
                raise self._end() from None
            except StopAsyncIteration:
                return
            yield event

    async def _next(self, events: AsyncIterator[_Event], due: float) -> _Event:
        if self._stopping or asyncio.get_running_loop().time() >= due:
            raise TimeoutError
        async with asyncio.timeout_at(due) as waiting:
            self._waiting.add(waiting)
            try:
                return await anext(events)
            finally:
                self._waiting.discard(waiting)

    def _end(self) -> RequestError:
        why = "the server stops" if self._stopping else f"a stream ends after {self._max_age_seconds:g} s"
        return unavailable(f"{why}. Fix: open another one, and send there what has no answer")
