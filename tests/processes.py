"""Wait until a process that a test started can be told by what /proc says of it."""

from __future__ import annotations

import time
from pathlib import Path


def until_executing(pid: int, program: str | Path) -> int:
    """Return `pid` once it executes `program`, with its arguments and environment in place.

    A started process is there before it is what it shall be: a shell's child is the shell at first, and during the
    exec itself arguments and environment read as empty.

    Raises:
        TimeoutError: If it does not within 30 seconds.
    """
    process = Path("/proc") / str(pid)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (process / "exe").readlink() == Path(program).resolve() and (process / "environ").read_bytes():
            return pid
        time.sleep(0.001)
    raise TimeoutError(f"process {pid} does not execute {program} within 30 seconds")
