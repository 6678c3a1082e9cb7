"""A Prometheus that gives prepared answers: the HTTP API on loopback, in the format of recorded answers."""

import json
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tests.ports import Handler, answering

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
    with answering(type("OfOne", (_Handler,), {"fake": fake})) as server:
        fake.address = f"127.0.0.1:{server.server_port}"
        yield fake


class _Handler(Handler):
    fake: FakePrometheus

    def answer(self) -> None:
        arguments = {name: values[0] for name, values in parse_qs(self.body().decode()).items()}
        self.fake.asked.append((self.path, arguments))
        try:
            series = self.fake.answer(arguments["query"])
        except ValueError as error:
            refused = {"status": "error", "errorType": "bad_data", "error": str(error)}
            self.respond(400, json.dumps(refused).encode())
            return
        data = _matrix(series, arguments) if self.path.endswith("query_range") else _vector(series, arguments)
        self.respond(200, json.dumps({"status": "success", "data": data}).encode())


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
