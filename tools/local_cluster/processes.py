"""Processes in /proc, and signals that never hit another process that got the same number."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process as seen from this machine."""

    pid: int
    start_ticks: int
    """Start time, in clock ticks since boot: with the pid it names one process for good."""
    parent: int
    namespace_pids: tuple[int, ...]
    """Its number in each PID namespace it is part of, this machine's first."""
    arguments: tuple[str, ...]

    @property
    def is_namespace_init(self) -> bool:
        """Whether it is the first process of a PID namespace below this machine's."""
        return len(self.namespace_pids) > 1 and self.namespace_pids[-1] == 1

    @property
    def resident_bytes(self) -> int:
        """Memory it holds (RSS); 0 once it has ended."""
        try:
            return int((PROC / str(self.pid) / "statm").read_text().split()[1]) * PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def environment(self) -> dict[str, str]:
        """Return the environment it was started with; empty once it has ended."""
        try:
            raw = (PROC / str(self.pid) / "environ").read_bytes()
        except OSError:
            return {}
        pairs = (entry.partition("=") for entry in raw.decode(errors="replace").split("\0") if entry)
        return {name: value for name, _, value in pairs}

    def namespace(self, kind: str) -> str | None:
        """Return the identity of its namespace of a kind ("pid", "net", "mnt"), or None once it has ended."""
        try:
            return str((PROC / str(self.pid) / "ns" / kind).readlink())
        except OSError:
            return None


def read_process(pid: int) -> Process | None:
    """Return a running process, or None where there is none of that number or it is a zombie."""
    folder = PROC / str(pid)
    try:
        # the program's name in brackets may hold spaces and brackets itself: split after the last one
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        status = (folder / "status").read_text(errors="replace")
        arguments = (folder / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    if fields[0] in {"Z", "X"}:
        return None
    namespace_pids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    return Process(
        pid=pid,
        start_ticks=int(fields[19]),
        parent=int(fields[1]),
        namespace_pids=tuple(int(number) for number in namespace_pids),
        arguments=tuple(arguments.split("\0")[:-1]),
    )


def all_processes() -> Iterator[Process]:
    """Yield every running process of this machine."""
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := read_process(int(entry.name))):
            yield process


def children_of(pid: int) -> list[Process]:
    """Return the running children of a process; of all others no more than the parent is read."""
    numbers = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [process for number in numbers if _parent(number) == pid and (process := read_process(number))]


def _parent(pid: int) -> int | None:
    try:
        return int((PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return None


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process; does nothing where it has ended, even if its number was given to another."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            current = read_process(process.pid)
            if current is not None and current.start_ticks == process.start_ticks:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def wait_until_ended(processes: Iterable[Process], *, timeout_seconds: float) -> list[Process]:
    """Wait for processes to end and return those that still run after the time given."""
    deadline = time.monotonic() + timeout_seconds
    return [process for process in processes if not _wait_for_end(process, deadline)]


def _wait_for_end(process: Process, deadline: float) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        current = read_process(process.pid)
        if current is None or current.start_ticks != process.start_ticks:
            return True
        readable, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        return bool(readable)
    finally:
        os.close(handle)
