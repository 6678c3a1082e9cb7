"""The cluster's own cgroup: `components` for what we start, `kubepods` (which the kubelet creates) for pods."""

from __future__ import annotations

import os
import time
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
REMOVE_TIMEOUT_SECONDS = 10.0
POD_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb", "io")


def is_unified(root: Path = CGROUP_ROOT) -> bool:
    """Return whether the machine has cgroup v2 only (one hierarchy for all controllers)."""
    return (root / "cgroup.controllers").exists()


def available_controllers(root: Path = CGROUP_ROOT) -> set[str]:
    """Return the names of the controllers that can be used, in v1 and v2 alike."""
    if is_unified(root):
        return set((root / "cgroup.controllers").read_text().split())
    return {name for hierarchy in hierarchies(root) for name in hierarchy.name.split(",")}


def hierarchies(root: Path = CGROUP_ROOT) -> list[Path]:
    """Return the top folder of every hierarchy (v2: the only one)."""
    if is_unified(root):
        return [root]
    if not root.is_dir():
        return []
    # v1 mounts may have aliases (cpu -> cpu,cpuacct): the link's target alone counts
    return [entry for entry in sorted(root.iterdir()) if entry.is_dir() and not entry.is_symlink()]


def create(name: str, root: Path = CGROUP_ROOT) -> list[Path]:
    """Make the cluster's cgroups and return the `cgroup.procs` files through which a component joins them."""
    joins: list[Path] = []
    for hierarchy in hierarchies(root):
        components = hierarchy / name / "components"
        components.mkdir(parents=True, exist_ok=True)
        if is_unified(root):
            _delegate_controllers(hierarchy)
            _delegate_controllers(hierarchy / name)
        # a v1 cpuset takes no process until its CPUs are set, which the kubelet does for pods; components need none
        if hierarchy.name != "cpuset":
            joins.append(components / "cgroup.procs")
    return joins


def _delegate_controllers(group: Path) -> None:
    offered = (group / "cgroup.controllers").read_text().split()
    enabled = [f"+{name}" for name in POD_CONTROLLERS if name in offered]
    (group / "cgroup.subtree_control").write_text(" ".join(enabled))


def existing(name: str, root: Path = CGROUP_ROOT) -> list[Path]:
    """Return the cluster's top cgroups that exist."""
    return [hierarchy / name for hierarchy in hierarchies(root) if (hierarchy / name).is_dir()]


def remove(name: str, root: Path = CGROUP_ROOT) -> None:
    """Remove the cluster's cgroups, whose processes have all been killed.

    Raises:
        OSError: one is still busy after 10 s.
    """
    deadline = time.monotonic() + REMOVE_TIMEOUT_SECONDS
    for group in existing(name, root):
        while True:
            try:
                _remove_tree(group)
                break
            except OSError:
                # the kernel frees a killed process's cgroup a moment after the process is gone
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _remove_tree(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()
