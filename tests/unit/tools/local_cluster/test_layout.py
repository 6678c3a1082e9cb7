from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest

from tests.tables import each_row
from tools.local_cluster.layout import Layout, Network


def test_parts_of_a_block_do_not_overlap() -> None:
    network = Network(IPv4Network("10.64.64.0/18"))
    link = IPv4Network(f"{network.host}/{network.link_prefix_length}", strict=False)
    parts = [link, network.pods, network.services, network.simulated_pods]
    assert all(part.subnet_of(network.block) for part in parts)
    assert not any(one.overlaps(other) for one, other in combinations(parts, 2))
    assert network.host in link
    assert network.node in link
    assert network.api_service in network.services
    assert network.dns_service in network.services


def test_pods_have_room_for_a_kubelets_worth_of_them() -> None:
    # 110 pods, and their predecessors that are still being removed
    assert Network(IPv4Network("172.16.0.0/18")).pods.num_addresses >= 2 * 110


@each_row("name", ["local", "a", "a-very-long-name-of-thirty-one"])
def test_interface_names_fit_the_kernel(name: str) -> None:
    interface = Layout(name=name, folder=Path("/home/user/.local/state/athanor") / name).interface
    assert len(interface) <= 15
    assert "/" not in interface


def test_same_name_in_another_home_is_another_cluster() -> None:
    one, other = (Layout(name="local", folder=Path(home) / "local") for home in ("/a", "/b"))
    assert one.interface != other.interface
    assert one.cgroup != other.cgroup


@each_row("name", ["", "-a", "a-", "A", "a_b", "a/b", "a" * 31, "..", "1a"])
def test_unusable_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cluster name"):
        Layout(name=name, folder=Path("/x"))
