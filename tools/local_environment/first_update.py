"""The first update of a new local cluster: completed, or repeated from nothing.

The engine writes all of its state, some megabytes, twice per resource, so that the next update can finish a killed one.
On a cluster that was just created nothing is lost with that update, so there it writes its state once, at the end,
which saves a fifth of the time of `make up` (docs/benchmarks.md). The engine does not know the objects that a killed
update leaves; they are removed with its cluster.
"""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.local_cluster import LocalCluster
    from tools.progress import Progress
    from tools.stacks.engine import Engine


def first_update(cluster: LocalCluster, engine: Engine, *, exclude: Sequence[str] = ()) -> None:
    """Update a stack without resources on a cluster that holds nothing yet, see `Engine.up`."""
    with _mark(cluster).open("w", encoding="utf-8") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        engine.writing_once().up(exclude=exclude)
        _mark(cluster).unlink()


def remove_half_made(cluster: LocalCluster, engine: Engine, report: Progress) -> None:
    """Remove a cluster whose first update was killed before it wrote its state; any other stays as it is.

    So does one whose first update is under way: another `make up`, or an engine that lives on without it.
    """
    try:
        mark = _mark(cluster).open("r+", encoding="utf-8")
    except FileNotFoundError:
        return
    with mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if engine.is_running():
            return
        if engine.is_empty():
            report.detail("the first update of this cluster was killed: creating the cluster again")
            cluster.down(report)
        _mark(cluster).unlink(missing_ok=True)


def _mark(cluster: LocalCluster) -> Path:
    """Return a file that exists from the beginning of a first update to its end, or to the removal of its cluster."""
    return cluster.layout.folder / "first-update"
