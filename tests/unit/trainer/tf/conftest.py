"""What the tests of the TensorFlow programs share: prepared data, and a network for themselves with tasks in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.warm_python import WarmProcess, WarmPython
from trainer.training.cifar_digits import prepare

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[4]
# loading TensorFlow takes seven seconds of a core, and much longer on a machine that is busy otherwise
PATIENCE_SECONDS = 280
# also when pytest is killed by its own time limit and no fixture cleans up
DIE_TOGETHER = ("setpriv", "--pdeathsig", "KILL")


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cifar")
    prepare(folder)
    return folder


class Task:
    """A process of a job, and what it says on standard error."""

    def __init__(self, process: subprocess.Popen[str] | WarmProcess) -> None:
        self.process = process
        self._said: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self._said)

    def wait_for(self, text: str) -> None:
        """Wait until the task has said `text`."""
        with self._changed:
            self._changed.wait_for(lambda: text in self.output or self._ended, timeout=PATIENCE_SECONDS)
        assert text in self.output, self.output

    def wait(self) -> int:
        """Wait for the end and return the exit status, negative for a signal."""
        self._reader.join(timeout=PATIENCE_SECONDS)
        assert not self._reader.is_alive(), f"does not end:\n{self.output}"
        return self.process.wait()

    def send(self, number: signal.Signals) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def end(self) -> None:
        """Kill it if it is left."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._changed:
                self._said.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Network:
    """A network namespace with nothing but a loopback interface.

    TensorFlow's servers listen on all interfaces whatever TF_CONFIG says; here no one else can reach them, and no port
    is taken by anybody.
    """

    def __init__(self, warm: WarmPython | None = None) -> None:
        """Make one; its programs start in new processes, or in forks of `warm`."""
        self._warm = warm
        self._tasks: list[Task] = []
        self._holder = subprocess.Popen(
            [
                "unshare",
                "--map-root-user",
                "--net",
                *DIE_TOGETHER,
                "sh",
                "-c",
                "ip link set lo up && echo up && exec sleep infinity",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self._holder.stdout.readline()
        self._holder.stdout.close()
        assert said == "up\n", "this machine allows no network namespace"

    def run(self, module: str, *arguments: object, **variables: str) -> Task:
        """Start `python -m module` in this network."""
        task = Task(self._start(module, *arguments, **{"TF_CONFIG": "", **variables}))
        self._tasks.append(task)
        return task

    def _start(self, *words: object, **variables: str) -> subprocess.Popen[str] | WarmProcess:
        if self._warm:
            return self._warm.start(*words, variables=variables, network_of=self._holder.pid)
        enter = [
            "nsenter",
            f"--target={self._holder.pid}",
            "--user",
            "--preserve-credentials",
            "--net",
            "--",
            *DIE_TOGETHER,
        ]
        return subprocess.Popen(
            [*enter, sys.executable, "-m", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **variables},
            cwd="/",
        )

    def close(self) -> None:
        for task in self._tasks:
            task.end()
        self._holder.kill()
        self._holder.wait()


@pytest.fixture
def network() -> Iterator[Network]:
    """A network whose programs start in new processes."""
    made = Network()
    yield made
    made.close()


@pytest.fixture(scope="session")
def tensorflow() -> Iterator[WarmPython]:
    """A process that has imported TensorFlow as `trainer.tf.framework` does."""
    settings = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    server = WarmPython("tensorflow", **settings)
    yield server
    server.close()


@pytest.fixture
def warm_network(tensorflow) -> Iterator[Network]:
    """A network whose programs need not import TensorFlow first."""
    made = Network(tensorflow)
    yield made
    made.close()


class Job:
    """Tasks that run one program with the same arguments."""

    def __init__(self, network: Network, program: str, cluster: dict[str, list[str]], *arguments: object) -> None:
        self._network = network
        self._command = (program, *arguments)
        self._cluster = cluster

    def start(self, role: str, index: int = 0) -> Task:
        document = {"cluster": self._cluster, "task": {"type": role, "index": index}}
        return self._network.run(*self._command, TF_CONFIG=json.dumps(document))


def arguments(data_dir: Path, base: Path, *more: object) -> list[object]:
    """The command line of a run, as in the pods."""
    return [
        *("--data_dir", data_dir, "--output_dir", base / "output", "--work_dir", base / "work", "--num_gpu", 0),
        *("--log_dir", base / "logs", "--run_name", "r1", *more),
    ]


def events(base: Path, rank: int) -> list[dict]:
    return [json.loads(line) for line in (base / f"logs/rank-{rank:05d}.jsonl").read_text().splitlines()]
