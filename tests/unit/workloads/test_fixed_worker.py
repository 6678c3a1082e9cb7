"""Two workers as pods run them: the real torchrun on loopback, with a last one that is slow to ask."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from tests.waiting import PATIENCE_SECONDS
from trainer.pytorch.program import NOT_AGAIN_EXIT_STATUS
from workloads import fixed_worker

pytestmark = pytest.mark.long

WORKER = Path(fixed_worker.__file__)
# The one that comes last to the barrier announces that first, and only then asks for its own answer.
SLOW_TO_ASK = """
import runpy, sys, time
from torch.distributed.elastic.utils import store

announce = store._barrier_nonblocking

def announce_and_pause(*arguments, **named):
    key = announce(*arguments, **named)
    time.sleep(2)
    return key

store._barrier_nonblocking = announce_and_pause
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(number: int, port: int, *program: str) -> subprocess.Popen[str]:
    launcher = ["-c", SLOW_TO_ASK] if number else []
    own = ["127.0.0.1", port, number, 2]
    options = ["--nnodes=2", "--nproc-per-node=1", f"--node-rank={number}", "--master-addr=127.0.0.1"]
    words = [*launcher, WORKER, *own, *options, f"--master-port={port}", "--max-restarts=0", "--no-python", *program]
    return subprocess.Popen(
        [sys.executable, *map(str, words)], env={**os.environ, "LOGLEVEL": "INFO"}, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def workers():
    """Start both workers, with the commands of their ranks; stop what is left of them."""
    started: list[subprocess.Popen[str]] = []

    def start_both(first: list[str], last: list[str]) -> list[subprocess.Popen[str]]:
        port = free_port()
        started.extend([start(0, port, *first), start(1, port, *last)])
        return started

    yield start_both
    for process in started:
        with process:
            process.terminate()  # torchrun then ends its ranks, too


def test_the_last_worker_leaves_without_a_traceback(workers):
    both = workers(["true"], ["sleep", "1"])
    first, last = (process.communicate(timeout=PATIENCE_SECONDS)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert "Done waiting for other agents" in last
    assert "Traceback" not in first + last


def test_a_rank_that_fails_fails_its_worker_at_once_with_its_own_exit_code(workers):
    _, last = workers(["sleep", "600"], ["sh", "-c", "exit 7"])
    said = last.communicate(timeout=PATIENCE_SECONDS)[1]
    assert last.returncode == 7
    assert said.endswith("rank 1 failed with exit code 7\n")
    assert "Traceback" not in said


@pytest.mark.parametrize(("status", "code"), [(1, 1), (NOT_AGAIN_EXIT_STATUS, 78), (-9, 137)])
def test_the_rank_that_failed_first_decides_the_status_of_its_pod(monkeypatch, capsys, status, code):
    def main() -> None:
        first = ProcessFailure(local_rank=1, pid=7, exitcode=status, error_file="none")
        raise ChildFailedError("trainer.train", {1: first})

    monkeypatch.setattr(fixed_worker, "main", main)
    with pytest.raises(SystemExit) as end:
        fixed_worker.run()
    assert end.value.code == code
    assert capsys.readouterr().err == f"rank 1 failed with exit code {code}\n"


def test_a_single_worker_holds_no_store_and_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c", "nowhere", "1", "0", "1", "--nnodes=1"])
    ran = []
    # as its pod runs it, but for torchrun
    source = WORKER.read_text().replace("import main  #", "import main as _  #")
    monkeypatch.setattr(fixed_worker.TCPStore, "__init__", lambda *_, **__: pytest.fail("it opened a store"))
    exec(compile(source, "worker", "exec"), {"__name__": "__main__", "main": lambda: ran.append(sys.argv)})
    assert ran == [["-c", "--nnodes=1"]]
