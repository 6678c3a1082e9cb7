"""The number of CPU cores that this container may use."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_cores(cgroup_root: Path = CGROUP_ROOT) -> int:
    """Return the whole cores this process may keep busy, at least 1: its CPU limit, else the cores it may run on.

    `os.cpu_count` sees the node's cores: with it, every pod of a node starts a thread per core of the node. A request
    without a limit is not looked at: idle cores are for all, and the kernel shares busy ones by the requests. Threads
    that compute follow the request by OMP_NUM_THREADS, which jobs set (workloads/volcano_job.py).
    Sources: kernel documentation, cgroup-v2 `cpu.max` and sched-bwc `cpu.cfs_quota_us`.
    """
    allowed = len(os.sched_getaffinity(0))
    quota = _quota_v2(cgroup_root / "cpu.max") or _quota_v1(cgroup_root / "cpu")
    return max(1, min(allowed, int(quota))) if quota else allowed


def threads_per_process(processes: int, cgroup_root: Path = CGROUP_ROOT) -> int:
    """Return the threads each of a container's processes should use: OMP_NUM_THREADS if set, else a fair share."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:
        return int(threads)
    return max(1, usable_cores(cgroup_root) // processes)


def _quota_v2(file: Path) -> float | None:
    """Read `<quota|max> <period>`, both in microseconds."""
    try:
        quota, period = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    """Read the two files of cgroup v1; a quota of -1 means no limit."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period = int((folder / "cpu.cfs_period_us").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 else None
