import dataclasses
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tests.tables import each_row
from tools.local_cluster.layout import Layout, Network
from tools.local_cluster.preflight import GIB, SOCKET_PATH_LIMIT, Facts, PreflightError, Requirements, check, failures

REQUIREMENTS = Requirements(disk_bytes=4 * GIB, memory_bytes=2 * GIB)
GOOD = Facts(
    is_root=True,
    free_disk_bytes=4 * GIB,
    available_memory_bytes=2 * GIB,
    missing_programs=(),
    has_cni_plugins=True,
    controllers=frozenset({"cpu", "cpuset", "memory", "pids", "io"}),
    namespace_error="",
    overlay_error="",
    packet_filter_error="",
    socket_path=Path("/" + "s" * (SOCKET_PATH_LIMIT - 1)),
    network=Network(IPv4Network("10.64.0.0/18")),
    network_conflict="",
)


def test_a_machine_that_just_suffices_passes() -> None:
    assert failures(GOOD, REQUIREMENTS) == []


@each_row(
    ("change", "problem", "fix"),
    [
        ({"is_root": False}, "not running as root", "sudo"),
        ({"namespace_error": "unshare: EPERM"}, "unshare: EPERM", "privileged container"),
        ({"missing_programs": ("conntrack", "ip")}, "conntrack, ip", "apt-get install conntrack iproute2"),
        ({"has_cni_plugins": False}, "CNI plugins", "containernetworking-plugins"),
        ({"free_disk_bytes": 4 * GIB - 1}, "4.0 GiB needed", "ATHANOR_HOME"),
        ({"available_memory_bytes": GIB}, "1.0 GiB of memory available, 2.0 GiB needed", "stop programs"),
        ({"socket_path": Path("/" + "s" * SOCKET_PATH_LIMIT)}, "too long for a socket", "shorter path"),
        ({"network_conflict": "a route to 10.64.3.0/24"}, "10.64.0.0/18 is now in use", "make down"),
        ({"controllers": frozenset({"cpu"})}, "cpuset, memory, pids", "cgroup_enable=memory"),
        ({"overlay_error": "wrong fs type"}, "wrong fs type", "ATHANOR_HOME"),
        ({"packet_filter_error": "No chain"}, "No chain", "modprobe"),
    ],
)
def test_each_lack_is_named_with_its_fix(change: dict[str, Any], problem: str, fix: str) -> None:
    (failure,) = failures(dataclasses.replace(GOOD, **change), REQUIREMENTS)
    assert problem in failure.problem
    assert fix in failure.fix


def test_all_lacks_are_reported_at_once() -> None:
    facts = dataclasses.replace(GOOD, free_disk_bytes=0, available_memory_bytes=0, overlay_error="x")
    lacking = failures(facts, REQUIREMENTS)
    assert len(lacking) == 3
    text = str(PreflightError(lacking))
    assert text.count("fix:") == 3


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    layout = Layout(name="new", folder=tmp_path / "not" / "there" / "new")
    check(layout, REQUIREMENTS)
    assert list(tmp_path.iterdir()) == []
