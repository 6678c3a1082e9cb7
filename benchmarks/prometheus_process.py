"""A Prometheus of an own on loopback, which ends when it takes too much memory."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tools.local_cluster.node import tail

if TYPE_CHECKING:
    from collections.abc import Generator

RULES_FILE = "rules.yaml"
MOST_MEMORY_BYTES = 6 * 2**30
_READY_SECONDS = 60
_MOST_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Prometheus:
    """A running Prometheus on loopback."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def wait(self, seconds: float) -> None:
        """Let it work for so long.

        Raises:
            RuntimeError: it ended, or needs more than 6 GiB.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self.failed("ended")
            if self.peak_bytes() > MOST_MEMORY_BYTES:
                raise self.failed(f"needs more than {MOST_MEMORY_BYTES / 2**30:.0f} GiB")
            time.sleep(1)

    def wait_until(self, query: str) -> None:
        """Let it work until a query has a result, at most for five minutes.

        Raises:
            RuntimeError: it has none, or what `wait` raises.
        """
        deadline = time.monotonic() + _MOST_SECONDS
        while not self.values(query):
            if time.monotonic() > deadline:
                raise self.failed(f"has no result of {query} after {_MOST_SECONDS} s")
            self.wait(2)

    def failed(self, how: str) -> RuntimeError:
        """Return an error with the end of its log."""
        return RuntimeError(f"Prometheus {how}; its log ends with:\n{tail(self.log)}")

    def peak_bytes(self) -> float:
        """Return the most resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def ask(self, path: str) -> str:
        """Return an answer's body."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return answer.read().decode()

    def metrics(self) -> dict[str, float]:
        """Return its own metrics, each summed over its labels."""
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(self.ask("/metrics")):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0) + sample.value
        return sums

    def values(self, query: str) -> list[float]:
        """Return the values of a query."""
        results = json.loads(self.ask(f"/api/v1/query?{urlencode({'query': query})}"))["data"]["result"]
        return [float(result["value"][1]) for result in results]

    def unreadable(self) -> list[str]:
        """Return what is wrong with targets that could not be read."""
        targets = json.loads(self.ask("/api/v1/targets?state=active"))["data"]["activeTargets"]
        return [target["lastError"] for target in targets if target["health"] == "down"]


@contextmanager
def running(program: Path, folder: Path, configuration: dict[str, Any], rules: dict[str, Any]) -> Generator[Prometheus]:
    """Run a Prometheus in a new folder while the block runs; `configuration` names RULES_FILE for the rules."""
    folder.mkdir()
    for name, content in {RULES_FILE: rules, "prometheus.yaml": configuration}.items():
        (folder / name).write_text(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    log = folder / "prometheus.log"
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            prometheus = Prometheus(process=process, url=f"http://{address}", log=log)
            _await_ready(prometheus)
            yield prometheus
        finally:
            process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _await_ready(prometheus: Prometheus) -> None:
    for _ in range(_READY_SECONDS):
        prometheus.wait(1)
        try:
            prometheus.ask("/-/ready")
        except OSError:
            continue
        return
    raise prometheus.failed(f"is not ready after {_READY_SECONDS} s")
