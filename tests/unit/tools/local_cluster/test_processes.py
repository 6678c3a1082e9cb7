import dataclasses
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.processes import until_executing
from tests.waiting import PATIENCE_SECONDS
from tools.local_cluster.processes import all_processes, children_of, read_process, send_signal, wait_until_ended


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "infinity"], env={"MARK": "a=b"}) as process:
        until_executing(process.pid, shutil.which("sleep"))
        yield process
        process.kill()


def test_a_process_is_described(child: subprocess.Popen[bytes]) -> None:
    process = read_process(child.pid)
    assert process is not None
    assert process.arguments == ("sleep", "infinity")
    assert process.parent == os.getpid()
    assert process.environment() == {"MARK": "a=b"}
    assert process.resident_bytes > 0
    assert not process.is_namespace_init
    assert process.pid in {other.pid for other in all_processes()}


def test_children_are_those_of_one_process_and_not_theirs(child: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep infinity & echo; wait"], stdout=subprocess.PIPE, process_group=0
    ) as shell:
        try:
            assert shell.stdout is not None
            shell.stdout.readline()
            assert {child.pid, shell.pid} <= {process.pid for process in children_of(os.getpid())}
            [grandchild] = children_of(shell.pid)
            assert grandchild.pid not in {process.pid for process in children_of(os.getpid())}
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_a_signal_reaches_exactly_its_process(child: subprocess.Popen[bytes]) -> None:
    process = read_process(child.pid)
    assert process is not None
    recycled = dataclasses.replace(process, start_ticks=process.start_ticks - 1)
    send_signal(recycled, signal.SIGKILL)
    assert wait_until_ended([process], timeout_seconds=0.2) == [process]
    send_signal(process, signal.SIGTERM)
    assert child.wait(timeout=PATIENCE_SECONDS) == -signal.SIGTERM


def test_a_recycled_number_counts_as_ended(child: subprocess.Popen[bytes]) -> None:
    process = read_process(child.pid)
    assert process is not None
    earlier = dataclasses.replace(process, start_ticks=process.start_ticks - 1)
    assert wait_until_ended([earlier], timeout_seconds=0) == []


def test_what_has_ended_is_not_a_process(child: subprocess.Popen[bytes]) -> None:
    process = read_process(child.pid)
    assert process is not None
    child.kill()
    assert wait_until_ended([process], timeout_seconds=PATIENCE_SECONDS) == []
    assert read_process(child.pid) is None, "a zombie"
    child.wait()
    assert process.environment() == {}
    assert process.namespace("pid") is None
    send_signal(process, signal.SIGKILL)
