"""Processes that run a module as `python -m` does, forked from one that has imported the slow packages already.

Importing TensorFlow takes 4 s of a core and PyTorch 2 s, even with their bytecode at hand: more than most of what the
tests then do. Each process is one of its own all the same: its arguments, environment, signals and end are what they
are in a pod.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parents[1]
REQUEST_BYTES = 256 * 1024
READY = b"ready"
# <linux/prctl.h>, <linux/sched.h>
PR_SET_PDEATHSIG = 1
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


class WarmPython:
    """A server that has imported `packages` and forks one process per request. It and they end with this process."""

    def __init__(self, *packages: str, **variables: str) -> None:
        """Start the server with `variables` in its environment: packages read some while they are imported.

        Raises:
            RuntimeError: a package cannot be imported, or starts threads; the server says why on standard error.
        """
        self._environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **variables}
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), *packages]
            self._server = subprocess.Popen(
                command, env=self._environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/"
            )
        if not self._requests.recv(len(READY)):
            self.close()
            raise RuntimeError(f"no server that has imported {', '.join(packages)}: see its standard error")

    def start(
        self, module: str, *arguments: object, variables: Mapping[str, str] | None = None, network_of: int | None = None
    ) -> WarmProcess:
        """Run a module, in the network (and user) namespace of the process `network_of` if it is given."""
        output, their_output = os.pipe()
        report, their_report = os.pipe()
        request = {
            "arguments": [module, *map(str, arguments)],
            "environment": {**self._environment, **(variables or {})},
            "network_of": network_of,
        }
        socket.send_fds(self._requests, [json.dumps(request).encode()], [their_output, their_report])
        os.close(their_output)
        os.close(their_report)
        return WarmProcess(output, report)

    def close(self) -> None:
        """End the server once all processes have ended."""
        self._requests.close()
        self._server.wait()


class WarmProcess:
    """What tests use of `subprocess.Popen`, for a process that is not a child of this one."""

    def __init__(self, output: int, report: int) -> None:
        self.stdout = open(output, encoding="utf-8", errors="replace")  # noqa: SIM115  closed by its reader
        self._report = open(report, encoding="ascii")  # noqa: SIM115  closed with the status
        self.pid = int(self._report.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal."""
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0)
            with self._report:
                self.returncode = int(self._report.readline())
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal if it has not ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request; return in the forked process alone, with its request.

    Between the server and the process stands a keeper, which waits for its end and reports it.
    """
    while True:
        content, handles, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 2)
        if not content:
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.wait()
            sys.exit()
        if os.fork() == 0:
            requests.close()
            die_with_parent()
            keep(*handles)
            return json.loads(content)
        for handle in handles:
            os.close(handle)


def keep(output: int, report: int) -> None:
    """Fork the process and return in it; the keeper itself ends with it."""
    pid = os.fork()
    if pid:
        os.write(report, f"{pid}\n".encode())
        os.close(output)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(report, f"{status}\n".encode())
        os._exit(0)
    die_with_parent()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.close(report)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that forked it is gone, however that came."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter_network(pid: int) -> None:
    """Join the user and network namespaces of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, flag in (("user", CLONE_NEWUSER), ("net", CLONE_NEWNET)):
        with Path(f"/proc/{pid}/ns/{kind}").open() as namespace:
            if libc.setns(namespace.fileno(), flag) != 0:
                raise OSError(ctypes.get_errno(), f"setns: {kind} namespace of process {pid}")


def main() -> None:
    """Be the server, and in each forked process what was asked for."""
    die_with_parent()
    sys.path.pop(0)  # the folder of this file, which is not on the path of `python -m`
    for package in sys.argv[2:]:
        importlib.import_module(package)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise RuntimeError(f"importing {sys.argv[2:]} started {threads - 1} threads, which no fork takes along")
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        requests.send(READY)
        request = serve(requests)
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["network_of"] is not None:
        enter_network(request["network_of"])
    module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    # a package that is imported already may be run, too
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
