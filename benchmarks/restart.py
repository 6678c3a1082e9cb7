"""How long an elastic job of two workers trains nothing when a rank is killed, when a worker is lost, when one is back.

A rendezvous and two torchruns of one rank each, started as in the pods and with their options, on loopback: without the
time that Kubernetes takes to start a pod.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import spread
from tools.tables import table
from trainer.training import digits
from workloads.pytorch import PyTorchJobArgs, torchrun_command
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 5
_PATIENCE_SECONDS = 120
_STEPS_BEFORE = 20
_REPOSITORY = Path(__file__).resolve().parents[1]
_PROGRAM = ("-m", "trainer.train", "--num_gpu=0", "--epochs=100000", "--log_interval_steps=1", "--batch_size=256")
"""The small CNN on the digits: a checkpoint every 100 steps."""


def measure(report: Progress) -> Table:
    """Return the table."""
    seconds: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        report.detail(f"round {number + 1} of {ROUNDS}")
        for what, took in _round().items():
            seconds.setdefault(what, []).append(took)
    rows = [[what, spread(values, "s", 1), f"{statistics.median(values):.1f}"] for what, values in seconds.items()]
    title = f"An elastic job of two workers, {ROUNDS} rounds, median (range)"
    return table(title, ["from", "to the next step", "median, s"], rows)


def _round() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        job = _Job(Path(folder), ends)
        first, second = job.start_worker(), job.start_worker()
        job.wait(lambda: job.steps_of(2) >= _STEPS_BEFORE)
        job.settle()
        killed = time.time()
        os.kill(_rank_of(second), signal.SIGKILL)
        seconds = {"a rank is killed": job.next_step(killed, ranks=2) - killed}

        job.settle()
        lost = time.time()
        _kill(second)
        seconds["a worker is lost, with its torchrun"] = job.next_step(lost, ranks=1) - lost

        job.settle()
        back = time.time()
        job.start_worker()
        step = job.next_step(back, ranks=2)
        seconds["a worker is back: its torchrun starts"] = step - back
        seconds["the last step before it joins"] = step - job.last_step(before=step)
        assert first.poll() is None
        return seconds


class _Job:
    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._folder, self._ends = folder, ends
        digits.prepare(folder)
        self._start(["-m", "trainer.rendezvous", "--host=127.0.0.1", "--port=0"])
        self.wait(lambda: "listening on" in self._said())
        self._port = self._said().rpartition(":")[2].strip()

    def start_worker(self) -> subprocess.Popen[str]:
        """Start one torchrun with the options of a pod, but for addresses."""
        args = PyTorchJobArgs(program=_PROGRAM, workers=2, minimum_workers=1, max_restarts=5, resources=Resources())
        command = torchrun_command("job", args)
        settings = [word for word in command if word.startswith("--rdzv-") and "endpoint" not in word]
        store = f"127.0.0.1:{self._port}"
        addresses = [f"--rdzv-endpoint={store}", "--local-addr=127.0.0.1"]
        more = [f"--{name}_dir={self._folder / name}" for name in ("output", "work")]
        launcher = ["-m", "workloads.elastic_worker", store]
        words = [*launcher, "--nnodes=1:2", "--max-restarts=5", *settings, *addresses, *_PROGRAM]
        return self._start([*words, f"--data_dir={self._folder}", *more])

    def _start(self, words: list[str]) -> subprocess.Popen[str]:
        variables = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        command, environment = [sys.executable, "-u", *words], {**os.environ, **variables}
        with (self._folder / "said").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True, cwd=_REPOSITORY
            )
        self._ends.callback(_kill, process)
        return process

    def _said(self) -> str:
        return (self._folder / "said").read_text(encoding="utf-8")

    def events(self) -> list[dict[str, Any]]:
        """Return what rank 0 logged, whichever process it was."""
        file = self._folder / "output/default/logs/rank-00000.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def steps_of(self, ranks: int) -> int:
        """Return the steps since the job last began with this number of ranks; 0 if it runs with another."""
        steps = 0
        for event in self.events():
            if event["event"] in {"started", "resumed"}:
                steps = 0 if event["world_size"] == ranks else -(10**9)
            steps += event["event"] == "step"
        return max(0, steps)

    def settle(self) -> None:
        """Wait until it has trained for a while."""
        begin = len(self.events())
        self.wait(lambda: len(self.events()) > begin + _STEPS_BEFORE)

    def next_step(self, since: float, *, ranks: int) -> float:
        """Return when the first step ended after the job has begun again since then, with this number of ranks."""
        self.wait(lambda: self._first_step(since, ranks) is not None)
        step = self._first_step(since, ranks)
        assert step is not None
        return step

    def last_step(self, *, before: float) -> float:
        """Return when the last step ended before another one."""
        return max(_time(event) for event in self.events() if event["event"] == "step" and _time(event) < before)

    def _first_step(self, since: float, ranks: int) -> float | None:
        begun = False
        for event in self.events():
            if event["event"] in {"started", "resumed"} and _time(event) > since:
                begun = event["world_size"] == ranks
            if begun and event["event"] == "step":
                return _time(event)
        return None

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something is so; how often it is looked at changes no measured time."""
        limit = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            if time.monotonic() > limit:
                raise RuntimeError(f"not so after {_PATIENCE_SECONDS} s; the workers said:\n{self._said()[-3000:]}")
            time.sleep(0.2)


def _time(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


def _rank_of(torchrun: subprocess.Popen[str]) -> int:
    """Return the process of the one rank of a torchrun."""
    [rank] = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text(encoding="utf-8").split()
    return int(rank)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and its ranks at once, as a node that loses power does."""
    if process.poll() is None:
        ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
        process.kill()
        for rank in ranks:
            os.kill(int(rank), signal.SIGKILL)
    process.wait()
