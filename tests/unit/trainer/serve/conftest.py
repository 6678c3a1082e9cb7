"""A repository with tiny models, and real servers on loopback."""

import contextlib
import functools
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest
import torch

from tests import waiting
from tests.warm_python import WarmPython
from trainer.model_repository import torchscript

PROJECT = Path(__file__).resolve().parents[4]
DEADLINE_SECONDS = waiting.PATIENCE_SECONDS

CONFIG = """
platform: "pytorch_libtorch"
max_batch_size: 8
input [{ name: "image" data_type: TYPE_FP32 dims: [1, 8, 8] }]
output [{ name: "logits" data_type: TYPE_FP32 dims: [10] }]
dynamic_batching {}
"""
GATHERING = CONFIG.replace("dynamic_batching {}", "dynamic_batching { max_queue_delay_microseconds: 5000000 }")
"""Requests wait until there are eight rows of them, or for five seconds: a queue that every machine has time to see."""


class Scaled(torch.nn.Module):
    """Returns the first ten pixels times a factor: the answer shows which version gave it."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.flatten(1)[:, :10] * self.factor


class Endless(torch.nn.Module):
    """Never returns for pixels above 5."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        while bool(image.max() > 5.0):
            image = image + 0.0
        return image.flatten(1)[:, :10]


class Repository:
    """Writes versions as trainer.pytorch.export does: whole, by one rename."""

    def __init__(self, path: Path, model: str = "digits"):
        self.path = path
        self.folder = path / model

    def configure(self, text: str = CONFIG):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.pbtxt").write_text(text)

    def publish(self, version: int, factor: float | None = None, *, module=None, **manifest):
        staging = self.folder / f".staging-{version}"
        staging.mkdir(parents=True)
        torchscript.save_frozen(module or Scaled(float(factor or version)), staging / "model.pt")
        digest = hashlib.sha256((staging / "model.pt").read_bytes()).hexdigest()
        (staging / "manifest.json").write_text(json.dumps({"sha256": digest, "model_file": "model.pt"} | manifest))
        staging.rename(self.folder / str(version))


_warm: dict[tuple[str, ...], WarmPython] = {}


def warm_python(*, has_torch: bool) -> WarmPython:
    """Return a Python that has imported what takes most of a server's start; one of several models imports no torch."""
    # not gRPC, which reads what it is to log when it is imported: the server sets that before
    packages = ("torch", "uvicorn") if has_torch else ("uvicorn",)
    if packages not in _warm:
        _warm[packages] = WarmPython(*packages)
    return _warm[packages]


@pytest.fixture(scope="session", autouse=True)
def _warm_pythons_end():
    yield
    for started in _warm.values():
        started.close()


class Server:
    """A server process; what it logs is collected."""

    def __init__(
        self,
        repository: Path,
        *flags: str,
        models: tuple[str, ...] = ("digits",),
        environment: dict[str, str] | None = None,
    ):
        self._process = warm_python(has_torch=len(models) == 1).start(
            *("trainer.serve", f"--model_repository={repository}", "--model_name", *models),
            *("--http_port=0", "--metrics_port=0", "--num_cpu_threads=1"),
            *("--poll_interval_seconds=0.05", "--drain_delay_seconds=0", *flags),
            variables=os.environ | (environment or {}),
        )
        self.log: list[str] = []
        self._log_ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self.log.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._log_ended = True
            self._changed.notify_all()

    def wait_for_log(self, pattern: str) -> re.Match:
        def first_match():
            return next(filter(None, (re.search(pattern, line) for line in self.log)), None)

        with self._changed:
            ended = self._changed.wait_for(lambda: first_match() or self._log_ended, DEADLINE_SECONDS)
            assert ended, f"{pattern!r} not logged in time: {self.log}"
            match = first_match()
        assert match, f"ended without logging {pattern!r}: {self.log}"
        return match

    def wait_until_listening(self):
        match = self.wait_for_log(r"serving http://127\.0\.0\.1:(\d+) and metrics at http://127\.0\.0\.1:(\d+)/")
        self.port, self.metrics_port = int(match[1]), int(match[2])
        self.address = f"127.0.0.1:{self.port}"
        grpc_port = next(filter(None, (re.search(r"serving gRPC on port (\d+)", line) for line in self.log)), None)
        if grpc_port:
            self.grpc_port = int(grpc_port[1])
            self.grpc_address = f"127.0.0.1:{self.grpc_port}"

    def request(self, method: str, path: str, body: bytes | str | dict | None = None, headers=None, port=None):
        """Return status, headers and decoded JSON (or text) of one request on a connection of its own."""
        if isinstance(body, dict):
            body = json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
            is_json = response.headers.get("content-type") == "application/json"
            return response.status, response.headers, json.loads(content) if is_json else content

    def get(self, path: str):
        return self.request("GET", path)

    def metrics(self) -> str:
        return self.request("GET", "/metrics", port=self.metrics_port)[2].decode()

    def wait_until(self, path: str, status: int = 200):
        """Ask until the status is there."""
        return poll(lambda: self.get(path)[0] == status, f"{path} to answer {status}")

    def wait_until_metric(self, name: str, value: int, more: str = ""):
        """Ask until a number of version 1 is there."""
        line = f'{name}{{model="digits",version="1"{more}}} {value}'
        return poll(lambda: line in self.metrics().splitlines(), line)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_SECONDS)

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        return self._process.wait(DEADLINE_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self):
        if self.alive:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


poll = functools.partial(waiting.wait_until, look_seconds=0.005)
"""A queue is empty again in an instant."""


def infer_document(rows: int = 1, value: float = 1.0) -> dict:
    data = [value] * 64 * rows
    return {"inputs": [{"name": "image", "datatype": "FP32", "shape": [rows, 1, 8, 8], "data": data}]}


@pytest.fixture
def endless():
    return Endless()


@pytest.fixture
def wait_until():
    return poll


@pytest.fixture(scope="session")
def document():
    return infer_document


@pytest.fixture
def repository(tmp_path) -> Repository:
    made = Repository(tmp_path / "models")
    made.configure()
    return made


@pytest.fixture
def start(repository):
    """Starts servers on the test's repository."""
    with contextlib.ExitStack() as stack:

        def start_server(*flags: str, **options) -> Server:
            server = Server(repository.path, *flags, **options)
            stack.callback(server.close)
            server.wait_until_listening()
            return server

        yield start_server


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    """One server with version 1 for all tests that leave it as it is."""
    with served_version(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture(scope="session")
def impatient_server(tmp_path_factory):
    """The same with limits so short that only clients that are slow on purpose should meet it."""
    limits = ("--head_timeout_seconds=2", "--body_timeout_seconds=2", "--max_connections=64")
    with served_version(tmp_path_factory.mktemp("impatient"), *limits) as server:
        yield server


@contextlib.contextmanager
def served_version(folder, *flags):
    """Run a server with version 1, and with less room for bodies than it has by default."""
    repository = Repository(folder / "models")
    repository.configure()
    repository.publish(1)
    room = ("--max_body_bytes=2000000", "--max_json_bytes=1000000", "--max_buffered_bytes=8000000")
    with contextlib.closing(Server(repository.path, *room, "--grpc_port=0", *flags)) as server:
        server.wait_until_listening()
        server.wait_until("/v2/health/ready")
        yield server
