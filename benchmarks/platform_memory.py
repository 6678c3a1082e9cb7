"""What the platform itself keeps in memory: cluster, CoreDNS and Volcano, without the workloads' Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from infra.machine import LOCAL_CLUSTER_NAME
from tools.local_cluster import LocalCluster
from tools.tables import table

if TYPE_CHECKING:
    from rich.table import Table

_WORKLOADS = ("python", "pt_main_thread", "pt_data_worker")


def measure() -> Table:
    """Return the table of every program in the cluster's cgroup, in proportional set sizes: shared pages count once."""
    cgroup = LocalCluster(LOCAL_CLUSTER_NAME).layout.cgroup
    sizes: Counter[str] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if cgroup in (process / "cgroup").read_text(encoding="utf-8"):
                sizes[(process / "comm").read_text(encoding="utf-8").strip()] += _proportional_kib(process)
        except OSError:  # the process has ended
            continue
    platform = {name: size for name, size in sizes.items() if not name.startswith(_WORKLOADS)}
    rows = [[name, f"{kib / 1024:.0f} MiB"] for name, kib in sorted(platform.items(), key=lambda item: -item[1])]
    total = sum(platform.values()) / 1024
    return table(
        "Platform memory (PSS), without workloads", ["program", "memory"], [*rows, ["total", f"{total:.0f} MiB"]]
    )


def _proportional_kib(process: Path) -> int:
    lines = (process / "smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
