"""Load on a server, by a generator in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_START_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Load:
    """What came of it."""

    requests: int
    failed: int
    seconds: float
    """From the first request to the last answer."""
    p99_seconds: float
    cpu_seconds: float
    """Of the generator, its start included."""

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return self.requests / self.seconds


def report(latencies: list[float], seconds: float, failed: int) -> str:
    """Return what a generator prints at its end."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    ordered = sorted(latencies)
    load = Load(
        requests=len(ordered),
        failed=failed,
        seconds=seconds,
        p99_seconds=ordered[len(ordered) * 99 // 100],
        cpu_seconds=used.ru_utime + used.ru_stime,
    )
    return json.dumps(asdict(load))


def http(port: int, request: Path, *, connections: int, seconds: float, rate: float = 0) -> Load:
    """Ask over HTTP; `rate` in requests per second, 0 for as many as get answered.

    Raises:
        RuntimeError: the generator failed, or a request did.
    """
    return _run(["benchmarks.http_load", str(port), str(request), str(connections), str(seconds), str(rate)], seconds)


def grpc(port: int, request: Path, *, connections: int, seconds: float) -> Load:
    """Ask over gRPC.

    Raises:
        RuntimeError: the generator failed, or a request did.
    """
    return _run(["benchmarks.grpc_load", str(port), str(request), str(connections), str(seconds)], seconds)


def _run(words: list[str], seconds: float) -> Load:
    ended = subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        timeout=seconds + _START_SECONDS,
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    load = Load(**json.loads(ended.stdout))
    if load.failed:
        raise RuntimeError(f"{' '.join(words)}: {load.failed} of {load.requests} requests failed")
    return load
