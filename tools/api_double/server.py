"""HTTP servers on loopback: the API itself over TLS, and its administration in the clear."""

from __future__ import annotations

import json
import socket
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tools.api_double.dispatch import Answer
from tools.api_double.faults import Fault
from tools.api_double.wire import Call

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from tools.api_double.account import Account
    from tools.api_double.dispatch import Dispatcher

LOOPBACK = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """Answers HTTP calls, each connection in a thread of its own, until it is stopped.

    Args:
        answer: from a call to its answer; None drops the connection.
        port: where to listen; 0 takes a free one.
        tls: for HTTPS.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, answer: Callable[[Call], Answer | None], *, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.answer = answer
        self._tls = tls
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
        """Take the next connection, over TLS where the server speaks it."""
        connection, address = super().get_request()
        if self._tls is not None:
            # the handshake is the handler's: a slow client must keep nobody else waiting
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self._open.add(connection)
        return connection, address

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
        answer = self.server.answer(Call(method=self.command, target=self.path, headers=headers, body=body))
        if answer is None:
            self.close_connection = True
            return
        payload = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - named by http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: the request log keeps what matters."""


def administration(dispatcher: Dispatcher, account: Account) -> Callable[[Call], Answer]:
    """Return how calls of the administration are answered.

    `GET /requests[?since=n]`, `/inventory`, `/unknown`, `/faults` tell; `POST /faults` with a JSON object of a `Fault`
    adds one; `POST /release` lets held calls go on; `DELETE /faults` forgets all.
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
