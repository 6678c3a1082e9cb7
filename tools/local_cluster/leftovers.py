"""Remains of a cluster on this machine: the proof that `down` removed everything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.local_cluster import cgroups, network
from tools.local_cluster.node import CLUSTER_VARIABLE
from tools.local_cluster.processes import all_processes

if TYPE_CHECKING:
    from tools.local_cluster.layout import Layout


def leftovers(layout: Layout) -> list[str]:
    """Return the remains of a cluster, for people to read; empty after `down`.

    Mounts, interfaces and packet filter rules inside the node cannot outlive its processes, which are looked for.
    """
    remains = [
        f"process {process.pid}: {' '.join(process.arguments)[:200]}"
        for process in all_processes()
        if process.environment().get(CLUSTER_VARIABLE) == str(layout.folder)
    ]
    remains += [f"mount {mount}" for mount in mounts_below(layout.folder)]
    if network.exists(layout):
        remains.append(f"network interface {layout.interface}")
    remains += [f"cgroup {group}" for group in cgroups.existing(layout.cgroup)]
    if layout.folder.exists():
        remains.append(f"folder {layout.folder}")
    return remains


def mounts_below(folder: Path) -> list[Path]:
    """Return the mounts on this machine at or below a folder (mountinfo(5), field 5)."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [point for point in points if point.is_relative_to(folder)]
