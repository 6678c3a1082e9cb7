"""An elastic job as in the pods: a rendezvous, two torchruns of one rank each, gloo over the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from torch.distributed import TCPStore

from infra.job_pods import NOT_AGAIN_EXIT_STATUS, STOPPED_EXIT_STATUS
from tests.processes import until_executing
from tests.warm_python import WarmPython
from trainer.pytorch.data.sampler import IndexSampler
from trainer.rendezvous import main as rendezvous

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.warm_python import WarmProcess

pytestmark = pytest.mark.long

CHECKPOINT_INTERVAL_STEPS = 10
PATIENCE_SECONDS = 120
"""How long nothing may happen before the test gives up; a busy machine takes a while to import torch."""


class Process:
    """A module of ours running as a program, and what it says."""

    def __init__(self, process: WarmProcess) -> None:
        self.process = process
        self._lines: list[str] = []
        self._said = threading.Condition()
        # a thread: a full pipe would stop the program while the test looks at another one
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._said:
                self._lines.append(line)
                self._said.notify_all()

    def wait_for(self, text: str) -> str:
        """Return the first line with `text`."""

        def matching() -> list[str]:
            return [line for line in self._lines if text in line]

        with self._said:
            assert self._said.wait_for(matching, PATIENCE_SECONDS), f"nothing with {text!r} in:\n{self.output}"
            return matching()[0]

    def end_status(self) -> int:
        """Return the exit status of a program that ends by itself; it is waited for while it says something."""
        while True:
            said = len(self._lines)
            try:
                return self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                assert len(self._lines) > said, f"neither ended nor said anything any more:\n{self.output}"

    def worker(self) -> int:
        """Return the process id of the one rank of this torchrun."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return until_executing(int(child), sys.executable)

    def die(self) -> None:
        """Kill torchrun and its rank at once, as a node that loses power does."""
        worker = self.worker()
        self.process.kill()
        os.kill(worker, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Kill whatever is left."""
        if self.process.poll() is None:
            for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def torch_imported() -> Iterator[WarmPython]:
    server = WarmPython(
        *("torch.distributed.run", "tyro"),
        PYTHONUNBUFFERED="1",
        GLOO_SOCKET_IFNAME="lo",
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        LOGLEVEL="INFO",  # torchrun says then when it sees another one come
    )
    yield server
    server.close()


@pytest.fixture
def start(torch_imported) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start_one(module: str, *arguments: object) -> Process:
        started.append(Process(torch_imported.start(module, *arguments)))
        return started[-1]

    yield start_one
    for process in reversed(started):
        process.end()


@pytest.fixture
def store(start) -> tuple[Process, int]:
    """A running rendezvous and its port."""
    process = start("trainer.rendezvous", "--host", "127.0.0.1", "--port", 0)
    return process, int(process.wait_for("listening on 127.0.0.1:").rpartition(":")[2])


def agent_arguments(port: int, data_dir: Path, base: Path) -> list[object]:
    """One torchrun of a job of one to two workers."""
    wait = "is_host=false,join_timeout=300,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
    return [
        *("torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-id=job"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={wait}"),
        *("--local-addr=127.0.0.1", "-m", "trainer.train", "--run_name", "r1", "--num_gpu", 0, "--epochs", 60),
        *("--data_dir", data_dir, "--output_dir", base / "output", "--work_dir", base / "work"),
        *("--batch_size", 128, "--width", 4, "--log_interval_steps", 10),
        *("--checkpoint_interval_steps", CHECKPOINT_INTERVAL_STEPS),
    ]


def late_worker(port: int, *program: object) -> list[object]:
    """A worker of a job that one is enough for, as pods run it."""
    settings = "is_host=false,join_timeout=60,last_call_timeout=1"
    return [
        *("workloads.elastic_worker", f"127.0.0.1:{port}", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=1"),
        *("--rdzv-id=job", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={settings}"),
        *("--local-addr=127.0.0.1", "--no-python", *program),
    ]


def test_a_worker_that_comes_when_the_others_have_finished_is_not_a_failure(start, store):
    _, port = store
    assert start(*late_worker(port, "true")).process.wait(PATIENCE_SECONDS) == 0
    late = start(*late_worker(port, "true"))
    late.wait_for("finished the job without this one")
    assert late.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(("status", "code", "attempts"), [(3, 1, 2), (NOT_AGAIN_EXIT_STATUS, 78, 1)])
def test_a_worker_that_comes_when_the_others_have_failed_fails_too(start, store, status, code, attempts):
    _, port = store
    failed = start(*late_worker(port, "sh", "-c", f"echo attempt; exit {status}"))
    assert failed.end_status() == code
    assert start(*late_worker(port, "true")).end_status() == code
    assert failed.output.count("attempt\n") == attempts


def test_a_worker_that_is_asked_to_stop_is_not_a_failure_to_volcano(start, store):
    _, port = store
    worker = start(*late_worker(port, "sh", "-c", "sleep 3; echo running; exec sleep 15"))
    worker.wait_for("running")
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == STOPPED_EXIT_STATUS, worker.output


def events(base: Path) -> list[dict]:
    """What rank 0 logged, whichever process it was."""
    return [json.loads(line) for line in (base / "output/r1/logs/rank-00000.jsonl").read_text().splitlines()]


def test_job_survives_the_loss_of_a_worker_and_takes_in_a_new_one(start, store, data_dir, tmp_path):
    host, port = store
    arguments = agent_arguments(port, data_dir, tmp_path)
    first, second = start(*arguments), start(*arguments)
    for agent in (first, second):
        agent.wait_for("group_world_size=2")
    # the one whose worker is rank 0: the ranks' own store dies with it
    leader, survivor = (first, second) if "group_rank=0" in first.wait_for("group_rank=") else (second, first)
    leader.wait_for(" step step=30 ")
    leader.die()

    survivor.wait_for("group_world_size=1")
    resumed = survivor.wait_for(" resumed step=")
    survivor.wait_for(" step step=")
    # paused, so that it has steps left when the other one is there; a stopped process gets SIGTERM when it goes on
    worker = survivor.worker()
    os.kill(worker, signal.SIGSTOP)
    back = start(*arguments)
    survivor.wait_for("Detected 1 new nodes")
    os.kill(worker, signal.SIGCONT)
    back.wait_for("group_world_size=2")

    for agent in (survivor, back):
        assert agent.end_status() == 0, agent.output
    host.process.terminate()
    assert host.process.wait(PATIENCE_SECONDS) == 0

    log = events(tmp_path)
    course = [(event["event"], event.get("world_size")) for event in log if event["event"] in {"started", "resumed"}]
    assert course == [("started", 2), ("resumed", 1), ("resumed", 2)]
    after_loss, after_growth = [event["step"] for event in log if event["event"] == "resumed"]
    assert after_loss >= 30 - CHECKPOINT_INTERVAL_STEPS
    assert f" resumed step={after_loss} " in resumed
    (stopped,) = [event["step"] for event in log if event["event"] == "stopped"]
    assert after_growth == stopped, "growing costs no step: the ranks save when they are asked to make room"
    assert [event["event"] for event in log].count("finished") == 1
    assert [path.name for path in (tmp_path / "output/models/digits").iterdir() if path.is_dir()] == ["1"]


def test_store_serves_several_clients_and_says_where_it_cannot(store, capsys):
    host, port = store
    first, second = (TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False) for _ in range(2))
    first.set("key", "value")
    assert second.get("key") == b"value"
    assert rendezvous(["--host", "127.0.0.1", "--port", str(port)]) == 1
    assert f"port={port}: Address already in use" in capsys.readouterr().err
    host.process.terminate()
    assert host.process.wait(PATIENCE_SECONDS) == 0


def test_store_listens_only_at_the_given_address(store):
    _, port = store
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port)).close()


def test_number_of_ranks_that_cannot_share_the_batch_is_refused_with_advice_for_elastic_jobs():
    with pytest.raises(
        ValueError, match=r"batch_size=64: 3 data-parallel ranks .* every number of ranks from its least to its most"
    ):
        IndexSampler(num_samples=100, batch_size=64, rank=0, world_size=3, seed=0)
