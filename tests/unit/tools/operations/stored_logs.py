"""A store of logs on loopback: it keeps what a test puts in and answers the few queries that the tools ask."""

import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from tests.ports import Handler, answering

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
Answer = tuple[int, bytes]


class StoredLogs:
    """Lines of pods; `say` answers the next requests with something else."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []
        self.asked: list[dict[str, str]] = []
        """Every request's form."""
        self.connections = 0
        self.most_rows = 0
        """Of one answer with lines."""
        self.say: list[Callable[[_Handler], None]] = []

    def add(self, microseconds: int, pod: str, text: str = "x", *, container: str = "worker", **fields: str) -> None:
        """Keep a line of a pod of namespace ml, so many microseconds after START."""
        seconds, rest = divmod(microseconds, 1_000_000)
        stamp = datetime.fromtimestamp(START.timestamp() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        fraction = f".{rest:06}".rstrip("0") if rest else ""
        tags = {"container_name": container, "pod_name": pod, "pod_namespace": "ml"}
        stream = ",".join(f'kubernetes.{key}="{value}"' for key, value in tags.items())
        of_pod = {f"kubernetes.{key}": value for key, value in tags.items()}
        self.rows.append({"_time": f"{stamp}{fraction}Z", "_stream": f"{{{stream}}}", "_msg": text, **of_pod, **fields})

    def matching(self, form: dict[str, str]) -> list[dict[str, Any]]:
        """Return what a query of the tools finds."""
        query = form["query"]
        rows = [row for row in self.rows if self._fits(row, form)]
        if "stats by (_stream)" in query:
            return [_counted(rows, stream) for stream in sorted({row["_stream"] for row in rows})]
        if step := re.search(r"stats by \(_time:(\d+)ns\)", query):
            return _buckets(rows, int(step.group(1)) // 1000)
        if "uniq by" in query:
            label = "kubernetes.pod_labels.athanor.dev/job"
            return [{label: name} for name in {row.get(label, "") for row in rows}]
        self.most_rows = max(self.most_rows, len(rows))
        # A store answers in no particular order.
        return sorted(rows, key=lambda row: row["_msg"][::-1])

    def _fits(self, row: dict[str, str], form: dict[str, str]) -> bool:
        [streams] = re.findall(r"^\{(.*?)\}", form["query"])
        for name, operator, value in re.findall(r'([\w.]+)(=~|=)("(?:[^"\\]|\\.)*")', streams):
            [tag] = re.findall(rf'{name}="([^"]*)"', row["_stream"])
            pattern = json.loads(value) if operator == "=~" else re.escape(json.loads(value))
            if not re.fullmatch(pattern, tag):
                return False
        labels = re.findall(r'"(kubernetes\.pod_labels\.[\w./-]+)":="([^"]*)"', form["query"])
        if labels and not any(row.get(name) == value for name, value in labels):
            return False
        moment = _micros(row["_time"])
        after = moment >= _micros(form["start"]) if "start" in form else True
        return after and (moment < _micros(form["end"]) if "end" in form else True)

    @contextmanager
    def serve(self) -> Generator[str]:
        """Answer on loopback while the block runs; yields host:port."""
        with answering(type("OfOne", (_Handler,), {"logs": self}), is_waited_for=False) as server:
            yield f"127.0.0.1:{server.server_port}"


def _micros(stamp: str) -> int:
    delta = datetime.fromisoformat(stamp) - START
    return round(delta.total_seconds() * 1_000_000)


def _counted(rows: list[dict[str, str]], stream: str) -> dict[str, str]:
    mine = sorted((row["_time"] for row in rows if row["_stream"] == stream), key=_micros)
    return {"_stream": stream, "first": mine[0], "last": mine[-1], "lines": str(len(mine))}


def _buckets(rows: list[dict[str, str]], step: int) -> list[dict[str, str]]:
    epoch = round(START.timestamp() * 1_000_000)
    counts: dict[int, int] = {}
    for row in rows:
        start = (epoch + _micros(row["_time"])) // step * step
        counts[start] = counts.get(start, 0) + 1
    stamps = {start: datetime.fromtimestamp(start / 1_000_000, UTC).isoformat()[:-6] + "Z" for start in counts}
    return [{"_time": stamps[start], "lines": str(count)} for start, count in counts.items()]


class _Handler(Handler):
    logs: StoredLogs
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.logs.connections += 1

    def answer(self) -> None:
        form = dict(parse_qsl(self.body().decode(), keep_blank_values=True))
        self.logs.asked.append({"path": self.path, **form})
        if self.logs.say:
            self.logs.say.pop(0)(self)
            return
        self.send_chunks(200, *(json.dumps(row).encode() + b"\n" for row in self.logs.matching(form)))

    def send_chunks(self, status: int, *chunks: bytes, cut: bool = False) -> None:
        """Send an answer of unknown length; `cut`: the connection ends before it does."""
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def send_whole(self, body: bytes, *, missing: int = 0) -> None:
        """Send an answer of known length; `missing`: so many bytes do not come."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = missing > 0
