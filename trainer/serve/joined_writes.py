"""Joined writes: all data that one turn of the event loop writes to a connection is sent by one system call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class JoinedWrites:
    """A transport that sends the first two writes of a turn of the event loop at once.

    ASGI has head and body of a response as two messages; each would be a system call and a packet of its own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._ahead = 0
        """Bytes of the next write that are sent already."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all else is the transport's
        return getattr(self._transport, name)

    def send_ahead(self, start: bytes) -> None:
        """Send what the next write begins with."""
        self._send_held()
        self._transport.write(start)
        self._ahead = len(start)

    def write(self, data: bytes) -> None:
        """Send it with what was held back, or hold it back until the end of the turn."""
        data = self._left(data)
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines([held, data])
        elif data:
            self._held = data
            self._loop.call_soon(self._send_held)

    def send(self, *parts: bytes) -> None:
        """Send these now, after what was held back."""
        held, self._held = self._held, b""
        self._transport.writelines([held, self._left(parts[0]), *parts[1:]])

    def close(self) -> None:
        """Close after everything is sent."""
        self._send_held()
        self._transport.close()

    def _left(self, data: bytes) -> bytes:
        ahead, self._ahead = self._ahead, 0
        return data[ahead:]

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)
