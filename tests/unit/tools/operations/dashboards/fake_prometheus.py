"""A Prometheus that gives prepared answers: the HTTP API on loopback, in the format of recorded answers."""

from __future__ import annotations

import json
import math
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Labels = dict[str, str]


@dataclass(kw_only=True)
class FakePrometheus:
    """What it knows."""

    answer: Callable[[str], list[tuple[Labels, Callable[[float], float]]]]
    """Query -> its series: labels, and the value at a time. A ValueError is an error of the query."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and arguments of each request."""
    address: str = ""


@contextmanager
def serving(fake: FakePrometheus) -> Generator[FakePrometheus]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        fake.address = f"127.0.0.1:{server.server_port}"
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: FakePrometheus

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        arguments = {name: values[0] for name, values in parse_qs(body).items()}
        self.fake.asked.append((self.path, arguments))
        try:
            series = self.fake.answer(arguments["query"])
        except ValueError as error:
            self._send(400, {"status": "error", "errorType": "bad_data", "error": str(error)})
            return
        data = _matrix(series, arguments) if self.path.endswith("query_range") else _vector(series, arguments)
        self._send(200, {"status": "success", "data": data})

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _written(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{'+' if value > 0 else '-'}Inf" if math.isinf(value) else repr(value)


def _vector(series: list, arguments: dict[str, str]) -> dict:
    time = float(arguments["time"])
    result = [{"metric": labels, "value": [time, _written(value(time))]} for labels, value in series]
    return {"resultType": "vector", "result": result}


def _matrix(series: list, arguments: dict[str, str]) -> dict:
    start, end, step = (float(arguments[name]) for name in ("start", "end", "step"))
    times = [start + index * step for index in range(int((end - start) / step) + 1)]
    result = [
        {"metric": labels, "values": [[time, _written(value(time))] for time in times]} for labels, value in series
    ]
    return {"resultType": "matrix", "result": result}
