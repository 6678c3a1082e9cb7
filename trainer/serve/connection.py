"""HTTP connections that cannot be held or filled forever: uvicorn's protocol with the limits that it lacks.

uvicorn 0.54 bounds the body it buffers and idle keep-alive connections. It does not bound the size of the head or of
trailers, the number of pipelined requests, nor the time that a head, or a client that does not read its response, may
take. And it loses the body of a request that offers to switch to another protocol, as Java's HttpClient does
(`Upgrade: h2c`).
"""

from __future__ import annotations

import http
import select
from typing import TYPE_CHECKING, Any, cast

import httptools
import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trainer.serve.client import HttpClient
from trainer.serve.errors import RETRY_ELSEWHERE
from trainer.serve.joined_writes import JoinedWrites

if TYPE_CHECKING:
    import asyncio
    from collections import Counter

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from trainer.serve.config import LimitsConfig


_MAX_PIPELINED_REQUESTS = 64
_START_OF_ANY_ANSWER = b"HTTP/1.1 "
_LOOK_SECONDS = 0.05
"""Between two looks whether a client that sends nothing more still listens."""


class RefusedError(Exception):
    """Stops the parser in the middle of what came; the connection is refused already."""


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration with our limits in it, where the protocol finds them."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401  uvicorn's type
        limits: LimitsConfig,
        responses: Counter[int],
        *,
        shutdown_seconds: int,
        protocol: type[BoundedHttpProtocol] | None = None,
    ) -> None:
        super().__init__(
            app,
            http=protocol or BoundedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive_seconds,
            timeout_graceful_shutdown=shutdown_seconds,
        )
        self.limits = limits
        self.responses = responses
        """Where the protocol counts, by status, what it answers without the application."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. Bytes that are not body are counted; timers run while the client has to act."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._client = HttpClient()
        # ASGI's state is copied into the scope of each request
        super().__init__(config, server_state, app_state | {"client": self._client}, _loop)
        self._limits = config.limits
        self._responses = config.responses
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        """Between two messages, or within the head of one."""
        self._overhead_bytes = 0
        """Of the message that is coming in: head, chunk framing and trailers."""
        self._body_bytes = 0
        self._received_bytes = 0
        """Most that the heads and trailers of what is being parsed can have."""
        self._message_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it when there are too many."""
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        if len(self.connections) > self._limits.max_connections:
            self._refuse(503, f"more than {self._limits.max_connections} connections. Fix: reuse connections")
            return
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and the request that waits for the model."""
        self._stop_head_timer()
        self._stop_write_timer()
        if self._look_timer is not None:
            self._look_timer.cancel()
        self._client.leave()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what a client asked that sends nothing more, then close; returns whether there is something to answer.

        It may have closed its sending side alone (`nc -N`) or be gone: both look alike until something is sent to it,
        for only then the kernel of one that is gone refuses it. So the bytes with which each answer begins go ahead.
        """
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not self._in_head:
            return False
        cycle.keep_alive = False
        if not (cycle.response_started or self.pipeline):
            cast("JoinedWrites", self.transport).send_ahead(_START_OF_ANY_ANSWER)
            self._look_timer = self.loop.call_later(_LOOK_SECONDS, self._look)
        return True

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it makes the message larger than it may be."""
        if self.transport.is_closing():
            return
        if self._in_head and self._head_timer is None:
            self._start_head_timer()
        body_before = self._body_bytes
        self._message_ended = False
        self._unset_keepalive_if_required()
        self._received_bytes = self._overhead_bytes + len(data)
        self._parse(data)
        if self._message_ended:
            self._overhead_bytes = self._body_bytes = 0
            return
        self._overhead_bytes += len(data) - (self._body_bytes - body_before)
        # one byte of framing for each of the body: no client of good will sends smaller chunks
        if self._overhead_bytes > self._limits.max_head_bytes + self._body_bytes:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        """Stop the clock: from here on the application has its own for the body.

        Raises:
            RefusedError: the head is too large, or the client sends on without reading; the parser stops here.
        """
        if self.parser.should_upgrade():
            return  # it is parsed once more, without the offer
        self._check_head()
        self._in_head = False
        self._stop_head_timer()
        if len(self.pipeline) >= _MAX_PIPELINED_REQUESTS:
            self._refuse(429, f"more than {_MAX_PIPELINED_REQUESTS} requests at once on a connection")
            raise RefusedError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the body apart from the rest."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Be ready for the next head.

        Raises:
            RefusedError: the trailers are too large.
        """
        if self.parser.should_upgrade():
            return
        self._check_head()
        self._in_head = True
        self._message_ended = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the form of all other errors."""
        self._refuse(400, msg)

    def pause_writing(self) -> None:
        """Give a client that does not read a while."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._limits.write_timeout_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        self._stop_write_timer()
        super().resume_writing()

    def _look(self) -> None:
        """Drop a client that is gone. The loop reads no more from it, and so does not notice."""
        socket = select.poll()
        socket.register(self.transport.get_extra_info("socket").fileno(), 0)
        if socket.poll(0):  # an error: it was reset
            self.transport.abort()
        else:
            self._look_timer = self.loop.call_later(_LOOK_SECONDS, self._look)

    def _parse(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                if self.parser.get_method() == b"CONNECT":
                    self._refuse(405, "CONNECT: not allowed. Fix: send requests without a proxy")
                    return
                data = self._head_without_offer() + data[offer.args[0] :]
                self.parser = _new_parser(self)
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            else:
                return

    def _check_head(self) -> None:
        """Refuse a head, with its trailers, that came in one piece with the rest: only then nobody has counted it."""
        limit = self._limits.max_head_bytes
        if self._received_bytes <= limit:
            return
        # ": " and the end of the line
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > limit:
            self._refuse_head()
            raise RefusedError

    def _refuse_head(self) -> None:
        self._refuse(431, f"request head larger than {self._limits.max_head_bytes} bytes")

    def _head_without_offer(self) -> bytes:
        """Return the head that was parsed last; the parser stops at an offer to upgrade, which a server may ignore."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s: %s" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version), *lines, b"", b""])

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_timeout_seconds, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _on_head_timeout(self) -> None:
        self._refuse(408, f"no complete request head within {self._limits.head_timeout_seconds:g} s")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, unless it is in the middle of an answer, and close."""
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._responses[status] += 1
            body = orjson.dumps({"error": message})
            head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
                head += "{}: {}\r\n".format(*RETRY_ELSEWHERE)
            if status == http.HTTPStatus.METHOD_NOT_ALLOWED:
                head += "allow: GET, POST\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()


def _new_parser(protocol: BoundedHttpProtocol) -> httptools.HttpRequestParser:
    """Return a parser like uvicorn's own."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
