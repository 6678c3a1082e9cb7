"""Ports of loopback for programs that take theirs as an argument."""

from __future__ import annotations

import socket
from contextlib import contextmanager
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
