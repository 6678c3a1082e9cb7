"""Fewer packets: what one turn of the event loop writes to a connection leaves in one system call."""

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

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all else is the transport's
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it with what was held back, or hold it back until the end of the turn."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines([held, data])
        elif data:
            self._held = data
            self._loop.call_soon(self._send_held)

    def send(self, *parts: bytes) -> None:
        """Send these now, after what was held back."""
        held, self._held = self._held, b""
        self._transport.writelines([held, *parts])

    def close(self) -> None:
        """Close after everything is sent."""
        self._send_held()
        self._transport.close()

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)
