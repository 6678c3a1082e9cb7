"""Wait until a process that a test started can be recognized in /proc, or has ended."""

from __future__ import annotations

import os
import select
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS, wait_until


def until_executing(pid: int, program: str | Path) -> int:
    """Return `pid` once it executes `program`, with its arguments and environment in place.

    A started process is there before it is what it shall be: a shell's child is the shell at first, and during the
    exec itself arguments and environment read as empty.
    """
    process, file = Path("/proc") / str(pid), Path(program).resolve()

    def executes() -> bool:
        return (process / "exe").readlink() == file and bool((process / "environ").read_bytes())

    wait_until(executes, f"process {pid} to execute {program}", look_seconds=0.001)
    return pid


def until_ended(pid: int) -> None:
    """Return once the process `pid` has ended, no matter which process started it.

    Raises:
        TimeoutError: If it does not within PATIENCE_SECONDS.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([process], [], [], PATIENCE_SECONDS)[0]:
            raise TimeoutError(f"process {pid} has not ended within {PATIENCE_SECONDS:.0f} seconds")
    finally:
        os.close(process)
