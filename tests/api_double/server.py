"""HTTP servers on loopback: the API itself over TLS, and its administration in the clear.

The API's server is a proxy, too (see `gate`), on the same port: who begins with a TLS handshake speaks to the API, and
who asks for a tunnel to a host of Alibaba Cloud does so from then on.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.api_double.dispatch import Answer
from tests.api_double.faults import Fault
from tests.api_double.wire import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api_double.account import Account
    from tests.api_double.dispatch import Dispatcher
    from tests.api_double.gate import Gate

LOOPBACK = "127.0.0.1"
_TLS_HANDSHAKE = b"\x16"
"""The first byte of a client that begins with TLS (RFC 8446, section 5.1)."""


class LoopbackServer(ThreadingHTTPServer):
    """Answers HTTP calls, each connection in a thread of its own, until it is stopped.

    Args:
        answer: from a call to its answer; None drops the connection.
        port: where to listen; 0 takes a free one.
        tls: for HTTPS; without it calls come in the clear.
        gate: for a proxy: which hosts the server answers as.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        answer: Callable[[Call], Answer | None],
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        gate: Gate | None = None,
    ) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.answer = answer
        self.tls = tls
        self.gate = gate
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.server_address[1]}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and end every connection."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()
        for connection in list(self._open):
            _end(connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take the next connection; what is said on it is for a thread of its own to wait for."""
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as http.server types it
        """Serve a connection to its end, over TLS where the client begins with it."""
        if self.tls is None or request.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
            super().finish_request(request, client_address)
            return
        connection = self.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self._open.add(connection)
        try:
            super().finish_request(connection, client_address)
        finally:
            self.shutdown_request(connection)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as http.server types it
        """End a connection whose client is done."""
        self._open.discard(request)
        _end(request)
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as http.server types it
        """Report what went wrong with a connection, unless the client merely went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # one write per answer: with head and body apart, the second waits 40 ms for the first to be acknowledged
    wbufsize = -1
    disable_nagle_algorithm = True
    server: LoopbackServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only server it is used with

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.server.gate is not None and not isinstance(self.connection, ssl.SSLSocket):
            self.server.gate.refuse(urlsplit(self.path).netloc or headers.get("host", ""))
            self._refuse()
            return
        answer = self.server.answer(Call(method=self.command, target=self.path, headers=headers, body=body))
        if answer is None:
            self.close_connection = True
            return
        self._send(answer)

    def do_CONNECT(self) -> None:
        """Answer as the host that the client asks its proxy for, if there is that host here."""
        host = self.path.rpartition(":")[0]
        # clients that do not know NO_PROXY come this way to the double's own address, too
        if self.server.gate is None or not (self.path == self.server.address or self.server.gate.opens(host)):
            self._refuse()
            return
        self.send_response_only(200, "Connection established")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        self.server.finish_request(self.connection, self.client_address)

    def _refuse(self) -> None:
        self._send(Answer(403, {"error": f"{self.path}: this is Alibaba Cloud, over HTTPS alone, and nobody else"}))

    def _send(self, answer: Answer) -> None:
        payload = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - named by http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: the request log keeps what matters."""


def administration(dispatcher: Dispatcher, account: Account, gate: Gate) -> Callable[[Call], Answer]:
    """Return how calls of the administration are answered.

    `GET /requests[?since=n]`, `/inventory`, `/unknown`, `/refused` (hosts), `/faults` tell; `POST /faults` with a JSON
    object of a `Fault` adds one; `POST /release` lets held calls go on; `DELETE /faults` forgets all.
    """

    def requests(call: Call) -> object:
        since = int(dict(parse_qsl(urlsplit(call.target).query)).get("since", 0))
        return [asdict(logged) for logged in dispatcher.log.calls(since=since)]

    def inventory(_: Call) -> object:
        with account.lock:
            return account.inventory()

    operations: dict[tuple[str, str], Callable[[Call], object]] = {
        ("GET", "/requests"): requests,
        ("GET", "/inventory"): inventory,
        ("GET", "/unknown"): lambda _: sorted(set(dispatcher.unknown)),
        ("GET", "/refused"): lambda _: gate.refused(),
        ("GET", "/faults"): lambda _: dispatcher.faults.waiting(),
        ("POST", "/faults"): lambda call: dispatcher.faults.add(Fault(**call.json())),
        ("DELETE", "/faults"): lambda _: dispatcher.faults.clear(),
        ("POST", "/release"): lambda _: dispatcher.faults.release(),
    }

    def answer(call: Call) -> Answer:
        operation = operations.get((call.method, call.path))
        if operation is None:
            return Answer(404, {"error": f"there are only {', '.join(' '.join(key) for key in operations)}"})
        try:
            return Answer(200, operation(call))
        except (TypeError, ValueError) as error:
            return Answer(400, {"error": str(error)})

    return answer


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster
