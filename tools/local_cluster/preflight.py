"""Requirements that a machine must meet before a local cluster is started on it, and fixes for missing ones."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.local_cluster import cgroups, network, state
from tools.local_cluster.container_runtime import CNI_FOLDERS, CNI_PLUGINS, find_cni_plugins
from tools.local_cluster.errors import ClusterError
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.local_cluster.layout import Layout, Network

GIB = 2**30
SOCKET_PATH_LIMIT = 104 - len(".ttrpc")
"""Longest path of a Unix socket that containerd takes (on every system), less what it adds for its second one."""
REQUIRED_CONTROLLERS = frozenset({"cpu", "cpuset", "memory", "pids"})
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
}
"""Programs the cluster runs, and the Debian package of each."""


@dataclass(frozen=True)
class Failure:
    """Something this machine lacks."""

    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.problem}\n    fix: {self.fix}"


class PreflightError(ClusterError):
    """The cluster cannot be started on this machine as it is; says everything that is wrong at once."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self.failures = tuple(failures)
        super().__init__(
            "this machine cannot run the local cluster yet:\n"
            + "\n".join(f"  - {failure}" for failure in self.failures)
        )


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Room that must be free for the cluster and what is going to run on it."""

    disk_bytes: int = 4 * GIB
    memory_bytes: int = 2 * GIB


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about the machine; an empty error means that a check worked."""

    is_root: bool
    free_disk_bytes: int
    available_memory_bytes: int
    missing_programs: tuple[str, ...]
    has_cni_plugins: bool
    controllers: frozenset[str]
    namespace_error: str
    overlay_error: str
    packet_filter_error: str
    socket_path: Path
    network: Network | None
    network_conflict: str


def failures(facts: Facts, requirements: Requirements) -> list[Failure]:
    """Return everything that is wrong, each with its fix."""
    return [*_privilege_failures(facts), *_resource_failures(facts, requirements), *_feature_failures(facts)]


def _privilege_failures(facts: Facts) -> list[Failure]:
    problems: list[Failure] = []
    if not facts.is_root:
        problems.append(Failure("not running as root, which mounts, namespaces and cgroups need", "run it with sudo"))
    elif facts.namespace_error:
        problems.append(
            Failure(
                f"mount, PID and network namespaces cannot be created ({facts.namespace_error})",
                "run on the machine itself or in a privileged container (docker run --privileged)",
            )
        )
    if facts.missing_programs:
        packages = sorted({PROGRAMS[program] for program in facts.missing_programs})
        problems.append(
            Failure(f"not on PATH: {', '.join(facts.missing_programs)}", f"apt-get install {' '.join(packages)}")
        )
    if not facts.has_cni_plugins:
        problems.append(
            Failure(
                f"CNI plugins {', '.join(CNI_PLUGINS)} are in none of {', '.join(CNI_FOLDERS)}",
                "apt-get install containernetworking-plugins",
            )
        )
    return problems


def _resource_failures(facts: Facts, requirements: Requirements) -> list[Failure]:
    problems: list[Failure] = []
    folder = facts.socket_path.parent
    if facts.free_disk_bytes < requirements.disk_bytes:
        problems.append(
            Failure(
                f"{_gib(facts.free_disk_bytes)} free for {folder}, {_gib(requirements.disk_bytes)} needed",
                "free some disk space, or set ATHANOR_HOME to a folder on a larger disk",
            )
        )
    if facts.available_memory_bytes < requirements.memory_bytes:
        problems.append(
            Failure(
                f"{_gib(facts.available_memory_bytes)} of memory available, {_gib(requirements.memory_bytes)} needed",
                "stop programs that use a lot of memory",
            )
        )
    if len(os.fsencode(facts.socket_path)) > SOCKET_PATH_LIMIT:
        problems.append(
            Failure(
                f"the path {facts.socket_path} is too long for a socket (at most {SOCKET_PATH_LIMIT} bytes)",
                "set ATHANOR_HOME to a folder with a shorter path",
            )
        )
    if facts.network_conflict and facts.network:
        problems.append(
            Failure(
                f"the cluster's address range {facts.network.block} is now in use on this machine"
                f" ({facts.network_conflict})",
                "remove that route or VPN, or recreate the cluster with other addresses: `make down`, then `make up`",
            )
        )
    return problems


def _feature_failures(facts: Facts) -> list[Failure]:
    problems: list[Failure] = []
    missing = REQUIRED_CONTROLLERS - facts.controllers
    if missing:
        problems.append(
            Failure(
                f"cgroup controllers are missing: {', '.join(sorted(missing))}",
                "mount the cgroup file system; for memory, boot with the kernel parameter cgroup_enable=memory",
            )
        )
    if facts.overlay_error:
        problems.append(
            Failure(
                f"overlay file systems cannot be mounted on {facts.socket_path.parent} ({facts.overlay_error})",
                "modprobe overlay, or set ATHANOR_HOME to a folder on ext4, xfs or btrfs",
            )
        )
    if facts.packet_filter_error:
        problems.append(
            Failure(
                f"the kernel lacks veth links or iptables rules for NAT ({facts.packet_filter_error})",
                "modprobe veth nf_nat nf_conntrack xt_comment xt_mark xt_statistic xt_MASQUERADE; "
                "a kernel without these modules cannot run the cluster",
            )
        )
    return problems


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"


def gather(layout: Layout) -> Facts:
    """Look at the machine. Kernel features are tried out in throw-away namespaces, which leave nothing behind."""
    stored = state.load(layout.state_file)
    addresses = stored.network if stored else None
    missing = tuple(program for program in PROGRAMS if shutil.which(program) is None)
    conflicting = network.conflict(addresses, layout) if addresses and "ip" not in missing else None
    is_root = os.geteuid() == 0
    can_try = is_root and not {"unshare", "ip", "iptables", "mount"} & set(missing)
    existing = _nearest_existing(layout.folder)
    return Facts(
        is_root=is_root,
        free_disk_bytes=shutil.disk_usage(existing).free,
        available_memory_bytes=_available_memory_bytes(),
        missing_programs=missing,
        has_cni_plugins=find_cni_plugins() is not None,
        controllers=frozenset(cgroups.available_controllers()),
        namespace_error=_try_out("true") if can_try else "",
        overlay_error=_try_overlay(existing) if can_try else "",
        packet_filter_error=_try_out(PACKET_FILTER_TRIAL) if can_try else "",
        socket_path=layout.containerd_socket,
        network=addresses,
        network_conflict=f"a route to {conflicting}" if conflicting else "",
    )


def check(layout: Layout, requirements: Requirements) -> list[Failure]:
    """Return the requirements that this machine does not meet; changes nothing."""
    return failures(gather(layout), requirements)


# What the node's network and kube-proxy use (k8s.io/kubernetes/pkg/proxy/iptables).
PACKET_FILTER_TRIAL = """
ip link add name trial0 type veth peer name trial1
iptables -w -t nat -N TRIAL
iptables -w -t nat -A TRIAL -m comment --comment trial -m statistic --mode random --probability 0.5 -j RETURN
iptables -w -t nat -A TRIAL -p tcp -m tcp -j DNAT --to-destination 127.0.0.1:1
iptables -w -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j TRIAL
iptables -w -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully
iptables -w -A INPUT -m conntrack --ctstate INVALID -j DROP
"""


def _try_out(script: str) -> str:
    """Return how a shell script fails in namespaces of its own; empty where it succeeds."""
    try:
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc"]
        # its own /run, because iptables keeps a lock file there
        script = f"set -e\nmount -t tmpfs tmpfs /run\n{script}"
        run(["unshare", *namespaces, "sh", "-c", script])
    except CommandError as error:
        return (error.output.strip().splitlines() or [f"status {error.status}"])[-1]
    return ""


def _try_overlay(folder: Path) -> str:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".athanor-preflight-") as trial:
        for name in ("lower", "upper", "work", "merged"):
            Path(trial, name).mkdir()
        options = "lowerdir=lower,upperdir=upper,workdir=work"
        return _try_out(f"cd '{trial}' && mount -t overlay overlay -o {options} merged")


def _nearest_existing(folder: Path) -> Path:
    return next(candidate for candidate in (folder, *folder.parents) if candidate.is_dir())


def _available_memory_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
