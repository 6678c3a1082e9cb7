"""Answers many scrapers on one loopback port, each path with a text of its own."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_CONNECTIONS_WAITING = 4096


@contextmanager
def metrics_server(answer: Callable[[str], str]) -> Generator[str]:
    """Answer every GET with `answer(path)` until the block ends; yields host:port.

    Connections stay open, as those to real targets do. All of it runs on one thread of this process.
    """
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                body = answer(request.split(b" ", 2)[1].decode()).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}"
                writer.write(head.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    async def start() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, backlog=_CONNECTIONS_WAITING)

    async def stop(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            host, port = server.sockets[0].getsockname()
            yield f"{host}:{port}"
        finally:
            asyncio.run_coroutine_threadsafe(stop(server), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
