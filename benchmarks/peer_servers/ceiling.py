"""A server that answers without looking, `… ceiling HTTP_PORT GRPC_PORT`: how much the load generators can ask for."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import grpc.aio
import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
_METHOD = "ModelInfer"


class _Connection(asyncio.Protocol):
    """Counts the bytes of bodies; a head comes in one piece from our generator, at the start of a body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._missing = 0

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            head, _, body = data.partition(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self._missing = int(length.partition(b":")[2])
            data = body
        self._missing -= len(data)
        if not self._missing:
            self._transport.write(_ANSWER)


async def _answer(_request: bytes, _context: object) -> bytes:
    return b""


async def main(http_port: int, grpc_port: int) -> None:
    await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", http_port)
    server = grpc.aio.server()
    handlers = {_METHOD: grpc.unary_unary_rpc_method_handler(_answer)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers)])
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
