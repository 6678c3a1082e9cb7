"""Ports of loopback for programs that take theirs as an argument, and for servers of the tests' own."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def held_port(port: int = 0) -> Generator[int]:
    """Give a port on which servers may listen, again and again, and which nobody else is given until the end.

    A port that is only looked up is free again: the kernel may give it to another test before the server that it is
    meant for listens there. This one stays bound without listening. So a client is refused, and a server gets it if it
    sets SO_REUSEADDR (socket(7)), as those of Go, of Python's library and of torch do.

    Args:
        port: which one; 0 for any.

    Raises:
        OSError: somebody has this one.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield holder.getsockname()[1]


class Handler(BaseHTTPRequestHandler, ABC):
    """What `answering` serves with; prints nothing."""

    @abstractmethod
    def answer(self) -> None:
        """Respond to the request `self.command` for `self.path`."""

    def do_GET(self) -> None:
        """Let `answer` do it, whatever the command."""
        self.answer()

    do_HEAD = do_POST = do_GET  # noqa: N815 - the names that http.server calls

    def body(self) -> bytes:
        """Return what was sent with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def respond(self, status: int, content: bytes) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def answering(handler: type[Handler], *, is_waited_for: bool = True) -> Generator[ThreadingHTTPServer]:
    """Serve HTTP on loopback while the block runs; by default, its end waits for the answers under way."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = not is_waited_for
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
