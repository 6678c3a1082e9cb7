"""Processes forked from a server are like those that `python -m` starts, without the imports."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.warm_python import WarmPython

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.warm_python import WarmProcess

SLOW = "import os\nIMPORTED_IN = os.getpid()\n"
PROGRAM = """
import os, signal, slow, sys
print(sys.argv[1:], os.environ["WHO"], os.environ["TASK"], __name__, flush=True)
print("imported here" if slow.IMPORTED_IN == os.getpid() else "imported before", flush=True)
match sys.argv[1]:
    case "wait": signal.pause()
    case "raise": raise ValueError("as it should")
    case status: sys.exit(int(status))
"""
THREADED = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"


@pytest.fixture
def server(tmp_path) -> Iterator[WarmPython]:
    for name, text in (("slow", SLOW), ("program", PROGRAM)):
        (tmp_path / f"{name}.py").write_text(text)
    started = WarmPython("slow", PYTHONPATH=str(tmp_path), WHO="server")
    yield started
    started.close()


def until_running(process: WarmProcess) -> None:
    assert "imported before\n" in iter(process.stdout.readline, "")


def test_arguments_environment_output_and_status_are_the_program_s_own(server):
    first, second = (server.start("program", status, variables={"TASK": f"task {status}"}) for status in (0, 7))
    for process, status in ((second, 7), (first, 0)):
        with process.stdout:
            said = process.stdout.read()
        assert said == f"['{status}'] server task {status} __main__\nimported before\n"
        assert (process.wait(), process.wait(), process.poll()) == (status, status, status)


def test_an_exception_is_reported_on_its_output_and_status_1(server):
    process = server.start("program", "raise", variables={"TASK": ""})
    with process.stdout:
        assert process.stdout.read().endswith("ValueError: as it should\n")
    assert process.wait() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_the_program_and_is_its_status(server, number):
    process = server.start("program", "wait", variables={"TASK": ""})
    with process.stdout:
        until_running(process)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        process.send_signal(number)
        assert process.wait() == -number
        process.kill()


def test_programs_end_with_the_server(server):
    process = server.start("program", "wait", variables={"TASK": ""})
    with process.stdout:
        until_running(process)
        server._server.kill()
        # its end of the pipe is closed by nothing but its death
        assert process.stdout.read() == ""
    process._report.close()


def test_a_program_is_in_the_network_that_it_is_given(server):
    holder = subprocess.Popen(
        ["unshare", "--map-root-user", "--net", "sh", "-c", "echo up && exec sleep infinity"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        holder.stdout.readline()
        process = server.start("program", "wait", variables={"TASK": ""}, network_of=holder.pid)
        with process.stdout:
            until_running(process)
            networks = [Path(f"/proc/{pid}/ns/net").readlink() for pid in (process.pid, holder.pid, os.getpid())]
            process.kill()
            process.wait()
        holder.kill()
    assert networks[0] == networks[1] != networks[2]


def test_a_package_that_starts_threads_is_refused(tmp_path, capfd):
    (tmp_path / "threaded.py").write_text(THREADED)
    with pytest.raises(RuntimeError, match="no server that has imported threaded"):
        WarmPython("threaded", PYTHONPATH=str(tmp_path))
    assert "importing ['threaded'] started 1 threads" in capfd.readouterr().err
