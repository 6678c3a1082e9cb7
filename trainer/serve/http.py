"""The adapter between ASGI and the routes: request bodies within limits, responses as one value."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from trainer.serve.content_encoding import Decompression
from trainer.serve.errors import RETRY_ELSEWHERE, BodyNotReadError, ClientDisconnectedError, RequestError
from trainer.serve.protocol.response import JSON_HEADERS, Headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from trainer.serve.buffers import BufferBudget
    from trainer.serve.client import HttpClient
    from trainer.serve.config import LimitsConfig
    from trainer.serve.request_log import RequestRecord

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_MAX_LENGTH_DIGITS = 18
_CLOSE = (b"connection", b"close")
_RETRY_ELSEWHERE = (RETRY_ELSEWHERE[0].encode(), RETRY_ELSEWHERE[1].encode())
BODY_DUE = "body_due"
"""Key in the scope's state: the time by which a body has to be complete, by the loop's clock, where its time has begun
already."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """A whole response."""

    status: int = 200
    headers: Headers = field(default_factory=lambda: JSON_HEADERS)
    body: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request whose body is there."""

    scope: Scope
    body: bytes
    record: RequestRecord

    @property
    def client(self) -> HttpClient:
        """Its sender."""
        return self.scope["state"]["client"]


def json_response(document: object, status: int = 200) -> Response:
    """Return a document as JSON."""
    return Response(status=status, body=orjson.dumps(document))


def error_response(error: RequestError) -> Response:
    """Return an error in the protocol's form."""
    headers = list(JSON_HEADERS)
    if error.retry_after_seconds is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
    if error.allowed_method is not None:
        headers.append((b"allow", error.allowed_method.encode()))
    if error.retry_elsewhere:
        headers.append(_RETRY_ELSEWHERE)
    # a file name that is not UTF-8 comes with lone surrogates, which JSON cannot hold
    message = str(error).encode("utf-8", "replace").decode()
    return Response(status=error.status, headers=headers, body=orjson.dumps({"error": message}))


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first value of a header; `name` in lower case."""
    return next((value for key, value in scope["headers"] if key == name), None)


def header_values(scope: Scope, name: str) -> list[str]:
    """Return all values of a header; `name` in lower case."""
    encoded = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == encoded]


@dataclass(slots=True)
class _Received:
    """The part of a body that has arrived."""

    chunks: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    """Size of the chunks."""
    compressed_size: int = 0
    """Size before decompression, if they came compressed."""


class BodyReader:
    """Reads request bodies within limits, and decompresses those that come compressed."""

    def __init__(self, limits: LimitsConfig, buffers: BufferBudget) -> None:
        self._limits = limits
        self._buffers = buffers

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Return a body; to be given back with `release` when its arrays are no longer needed.

        Raises:
            BodyNotReadError: 408, 413 or 503, what comes in is too slow or too large, as it is or decompressed; 400 or
                415, it cannot be decompressed.
            ClientDisconnectedError: the client left.
        """
        decompression = _decompression(scope)
        declared = header(scope, b"content-length") or b""
        # the HTTP parser has refused what is not a number
        if declared.isdigit() and (len(declared) > _MAX_LENGTH_DIGITS or int(declared) > self._limits.max_body_bytes):
            raise self._too_large(declared[:40].decode())
        received = _Received()
        try:
            async with asyncio.timeout_at(self._due(scope)):
                await self._receive_all(receive, received, decompression)
        except TimeoutError:
            self.release(received.size)
            seconds = self._limits.body_timeout_seconds
            raise BodyNotReadError(408, f"body not complete within {seconds:g} s; {received.size} bytes came") from None
        except BaseException:
            self.release(received.size)
            raise
        return received.chunks[0] if len(received.chunks) == 1 else b"".join(received.chunks)

    def release(self, size: int) -> None:
        """Give back what `read` took."""
        self._buffers.release(size)

    def _due(self, scope: Scope) -> float:
        now = asyncio.get_running_loop().time()
        return scope.get("state", {}).get(BODY_DUE, now + self._limits.body_timeout_seconds)

    async def _receive_all(self, receive: Receive, received: _Received, decompression: Decompression | None) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnectedError
            if decompression is None:
                self._take(received, message["body"])
            else:
                await self._decompress(decompression, received, message["body"])
            more = message["more_body"]
        if decompression is not None:
            decompression.end()

    async def _decompress(self, decompression: Decompression, received: _Received, chunk: bytes) -> None:
        received.compressed_size += len(chunk)
        self._check_size(received.compressed_size)  # it may become nothing, forever
        for part in decompression.parts(chunk):
            self._take(received, part)
            await asyncio.sleep(0)  # a small chunk may become much: others have their turn

    def _take(self, received: _Received, part: bytes) -> None:
        received.chunks.append(part)
        received.size += len(part)
        self._buffers.take(len(part))
        self._check_size(received.size)
        if self._buffers.exceeded:
            raise BodyNotReadError(503, self._buffers.refusal, retry_after_seconds=1, retry_elsewhere=True)

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_body_bytes:
            raise self._too_large(f"more than {self._limits.max_body_bytes}")

    def _too_large(self, size: str) -> BodyNotReadError:
        fix = "Fix: send the batch in parts"
        return BodyNotReadError(413, f"body of {size} bytes; limit: {self._limits.max_body_bytes}. {fix}")


def _decompression(scope: Scope) -> Decompression | None:
    """Return the decompression of a body, None if it is not compressed; several headers are one list."""
    encodings = ", ".join(header_values(scope, "content-encoding")).strip().lower()
    return None if encodings in ("", "identity") else Decompression(encodings)


async def send_response(send: Send, response: Response, *, close: bool = False) -> None:
    """Send a response; `close` asks the client to use another connection for its next request."""
    await _send_start(send, response, close=close)
    await send({"type": "http.response.body", "body": response.body})


async def send_response_early(
    scope: Scope, receive: Receive, send: Send, response: Response, limits: LimitsConfig
) -> None:
    """Answer before the body was read, and close.

    Closing while the client still sends would reset the connection and may destroy the answer on its way, so what
    comes is thrown away for a while. A client that asked first (Expect: 100-continue) has not begun to send.
    """
    await _send_start(send, response, close=True)
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    if header(scope, b"expect") is None:
        with contextlib.suppress(TimeoutError):
            await _discard(receive, limits)
    await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive, limits: LimitsConfig) -> None:
    left = limits.max_body_bytes
    async with asyncio.timeout(limits.head_timeout_seconds):
        while left > 0:
            message = await receive()
            if message["type"] == "http.disconnect" or not message["more_body"]:
                return
            left -= len(message["body"])


async def _send_start(send: Send, response: Response, *, close: bool) -> None:
    headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
    if close:
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
