"""The main process of a development pod, which runs until no client is connected and nothing works in the pod.

Sent to the pod as text, so it uses only Python's standard library. Arguments: the file that a connected client touches,
and the number of seconds without a client after which the pod ends. That time counts from the first client on.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

_LOOK_SECONDS = 5.0
_FIRST_SECONDS = 60.0
"""Least time for the first client: until it is connected, a slow machine or network takes longer than some are idle."""
_BUSY = 0.1
"""Cores: less is what waiting programs and the client's questions take."""
_USAGE = Path("/sys/fs/cgroup/cpu.stat")
"""CPU usage of all processes of the container (Linux, Documentation/admin-guide/cgroup-v2.rst, "cpu.stat")."""


def cpu_seconds() -> float:
    """Return the CPU time of everything in the container; 0 where the kernel does not say."""
    try:
        fields = dict(line.split() for line in _USAGE.read_text(encoding="utf-8").splitlines())
        return int(fields["usage_usec"]) / 1e6
    except (OSError, KeyError, ValueError):
        return 0.0


def _last(alive: Path) -> float:
    """Return when somebody was there; now, if a program has removed the file, as those that empty /tmp do."""
    try:
        return alive.stat().st_mtime
    except FileNotFoundError:
        alive.touch()
        return time.time()


def _touch(alive: Path) -> float:
    alive.touch()
    return alive.stat().st_mtime


def keep(
    alive: Path, idle_seconds: float, look_seconds: float = _LOOK_SECONDS, first_seconds: float = _FIRST_SECONDS
) -> None:
    """Return when nobody was connected and nothing worked for that long; the first client has `first_seconds`."""
    own, arrived = _touch(alive), False
    used = cpu_seconds()
    while time.time() - _last(alive) < (idle_seconds if arrived else max(idle_seconds, first_seconds)):
        time.sleep(look_seconds)
        arrived = arrived or _last(alive) != own
        before, used = used, cpu_seconds()
        if (used - before) / look_seconds > _BUSY:
            own = _touch(alive)


def _end(_number: int, _frame: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    # As the first process of a container it would not even notice the signal.
    signal.signal(signal.SIGTERM, _end)
    print(f"the development pod ends when no client is connected and it is idle for {sys.argv[2]} s", flush=True)
    keep(Path(sys.argv[1]), float(sys.argv[2]))
    print("no client was connected: the pod ends", flush=True)
