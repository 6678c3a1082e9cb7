"""One HTTP/1.1 connection to a server that may be slow, hostile or gone: answers are limited in size and time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import h11

if TYPE_CHECKING:
    from trainer.serve.protocol.response import Headers

_MAX_HEAD_BYTES = 1 << 16
_READ_BYTES = 1 << 16


class OversizedAnswerError(Exception):
    """The answer is larger than it may be."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: Headers
    """Names in lower case."""
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header; `name` in lower case."""
        return next((value for key, value in self.headers if key == name), None)


class ShadowConnection:
    """Connects when needed, and keeps the connection between requests; for one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._state = h11.Connection(h11.CLIENT)

    async def post(self, target: str, headers: Headers, body: bytes, max_answer_bytes: int) -> Answer:
        """Send a request and return the answer; the caller limits the time by canceling this.

        Raises:
            OSError: the connection was refused, or broke.
            h11.RemoteProtocolError: the other end does not speak HTTP, or ended in the middle of it.
            OversizedAnswerError: the answer's body is larger than `max_answer_bytes`.
        """
        was_open = self._writer is not None
        try:
            return await self._exchange(target, headers, body, max_answer_bytes)
        except (OSError, h11.RemoteProtocolError):
            # the other end may close a connection that was idle, at any time
            if not was_open:
                raise
        return await self._exchange(target, headers, body, max_answer_bytes)

    def close(self) -> None:
        """Close the connection, if there is one; the next request opens another."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _exchange(self, target: str, headers: Headers, body: bytes, max_answer_bytes: int) -> Answer:
        completed = False
        try:
            reader, writer = await self._open()
            await self._send(writer, target, headers, body)
            answer = await self._receive(reader, max_answer_bytes)
            completed = self._state.our_state is h11.DONE and self._state.their_state is h11.DONE
        finally:
            if not completed:
                self.close()
        self._state.start_next_cycle()
        return answer

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=_READ_BYTES)
            self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        return self._reader, self._writer

    async def _send(self, writer: asyncio.StreamWriter, target: str, headers: Headers, body: bytes) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        fixed: Headers = [(b"host", f"{host}:{self._port}".encode()), (b"content-length", b"%d" % len(body))]
        events = (
            h11.Request(method="POST", target=target, headers=[*fixed, *headers]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for event in events:
            writer.write(self._state.send(event) or b"")
        await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, max_answer_bytes: int) -> Answer:
        status, headers, body = 0, list[tuple[bytes, bytes]](), bytearray()
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                self._state.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, list(event.headers)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > max_answer_bytes:
                    raise OversizedAnswerError(f"answer of more than {max_answer_bytes} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, headers, bytes(body))
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError(f"the connection ended or changed its protocol: {event!r}")
