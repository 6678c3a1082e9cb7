"""A program's progress as lines of JSON for the commands of `athanor`, and as metrics for Prometheus."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import athanor_ranks as ranks

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MOST_NAMES = 100
_PREFIX = "athanor_training_"
_LINES_BETWEEN_SETTINGS = 1000
"""Of progress: the commands read the latest 5,000 lines of a pod, and should find the hyperparameters there."""
_LONGEST_SETTING = 200


def report(step: int, total_steps: int | None = None, **numbers: object) -> None:
    """Print a step as a line of JSON, from rank 0 alone, and let Prometheus read it, from each rank.

    Args:
        step: How many steps are done.
        total_steps: How many there will be; with it, the time left is known.
        numbers: Such as loss=0.31; anything that float() takes, one-element tensors included. NaN becomes null.

    Raises:
        TypeError: a value is not a number.
        ValueError: a name is not of letters, digits and underscores, or there are too many.
    """
    values = {name: _number(name, value) for name, value in numbers.items()}
    line = {"step": int(step), **({} if total_steps is None else {"total_steps": int(total_steps)}), **values}
    _PROGRESS.note(line)
    _PROGRESS.lines += 1
    if _PROGRESS.settings and _PROGRESS.lines % _LINES_BETWEEN_SETTINGS == 0:
        _print({"hyperparameters": _PROGRESS.settings})
    _print({name: value if math.isfinite(value) else None for name, value in line.items()})


def hyperparameters(values: Mapping[str, object]) -> None:
    """Print what this run was started with, from rank 0: `athanor runs --json` and `athanor compare` show it.

    Args:
        values: By name; mappings in them become names with dots, and what JSON does not know becomes text.
    """
    _PROGRESS.settings.update(_flat(values))
    _print({"hyperparameters": _PROGRESS.settings})


def saved(at: float | None = None) -> None:
    """Note that a checkpoint is complete: the dashboards show its age, and an alert says when it is too old.

    Args:
        at: When it was saved, Unix time in seconds; now by default.
    """
    _PROGRESS.checkpoint = time.time() if at is None else at
    _PROGRESS.serve()


def note(**numbers: float) -> None:
    """Let Prometheus read numbers of this rank, `step` among them, without a line."""
    _PROGRESS.note(numbers)


class _Progress:
    """What Prometheus reads of this process."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self.settings: dict[str, object] = {}
        self.lines = 0
        """Of progress, printed so far."""
        self.checkpoint: float | None = None
        self._steps: deque[tuple[float, int]] = deque(maxlen=50)
        self._lock = threading.Lock()
        self._served = False

    def note(self, line: Mapping[str, float]) -> None:
        with self._lock:
            if len({*self.numbers, *line}) > _MOST_NAMES:
                raise ValueError(f"report: more than {_MOST_NAMES} names. Fix: use the same names in every step")
            step = int(line["step"])
            if self._steps and step < self._steps[-1][1]:
                self._steps.clear()  # it went back to a checkpoint
            if not self._steps or step > self._steps[-1][1]:
                self._steps.append((time.monotonic(), step))
            self.numbers.update(line, last_step_timestamp_seconds=time.time())
            left = self._seconds_left(line)
            if left is not None:
                self.numbers["seconds_left"] = left
        self.serve()

    def _seconds_left(self, line: Mapping[str, float]) -> float | None:
        (began, first), (now, last) = self._steps[0], self._steps[-1]
        if "total_steps" not in line or last <= first or now <= began:
            return None
        return max(0, line["total_steps"] - last) * (now - began) / (last - first)

    def serve(self) -> None:
        """Answer Prometheus at this rank's port, unless something else does there."""
        with self._lock:
            port = os.environ.get("ATHANOR_METRICS_PORT")
            if self._served or port is None:
                return
            self._served = True
        try:
            server = ThreadingHTTPServer(("", int(port) + ranks.local_rank()), _Metrics)
        except (OSError, ValueError, OverflowError):
            return  # the program serves metrics of its own there
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def text(self) -> str:
        """Return the metrics (Prometheus, "Text-based format", 0.0.4)."""
        labels = f'{{run="{_escaped(os.environ.get("ATHANOR_JOB", ""))}",rank="{ranks.rank()}"}}'
        with self._lock:
            numbers = dict(self.numbers)
        if self.checkpoint is not None:
            numbers["checkpoint_timestamp_seconds"] = self.checkpoint
            numbers["checkpoint_age_seconds"] = time.time() - self.checkpoint
        return "".join(
            f"# TYPE {_PREFIX}{name} gauge\n{_PREFIX}{name}{labels} {_written(value)}\n"
            for name, value in sorted(numbers.items())
        )


class _Metrics(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        body = _PROGRESS.text().encode() if self.path == "/metrics" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass  # a line for each scrape would hide the program's own


def _print(line: Mapping[str, object]) -> None:
    if ranks.rank() == 0:
        # In one piece: ranks and threads write to the same pipe.
        with suppress(OSError, ValueError):  # nobody reads on, or the program closed it
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


def _flat(values: Mapping[str, object], before: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(cast("Mapping[str, object]", value), f"{before}{name}."))
        elif value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            flat[f"{before}{name}"] = value
        else:
            flat[f"{before}{name}"] = str(value)[:_LONGEST_SETTING]
    return flat


def _number(name: str, value: Any) -> float:  # noqa: ANN401 - whatever float() takes
    if not _NAME.fullmatch(name):
        raise ValueError(f"report: {name!r} must be letters, digits and underscores")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, (str, bytes, bool)):
        raise TypeError(f"report: {name} = {value!r} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"report: {name} is a {type(value).__name__}, not one number. Fix: such as .mean()") from None


def _written(value: float) -> str:
    special = {math.inf: "+Inf", -math.inf: "-Inf"}
    return "NaN" if math.isnan(value) else special.get(value, repr(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_PROGRESS = _Progress()
