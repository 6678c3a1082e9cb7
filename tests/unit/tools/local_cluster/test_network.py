from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.local_cluster import state
from tools.local_cluster.layout import Layout
from tools.local_cluster.network import (
    CANDIDATE_RANGES,
    NoFreeNetworkError,
    _destinations,
    blocks_of_siblings,
    choose_block,
)

LAYOUT = Layout(name="local", folder=Path("/home/a/local"))

networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False),
    st.integers(min_value=0, max_value=2**32 - 1),
    st.integers(min_value=4, max_value=32),
)


@given(st.lists(networks, max_size=20))
def test_a_chosen_block_overlaps_nothing_in_use(used: list[IPv4Network]) -> None:
    try:
        block = choose_block(LAYOUT, used)
    except NoFreeNetworkError:
        return
    assert not any(block.overlaps(network) for network in used)
    assert block.prefixlen == 18
    assert any(block.subnet_of(IPv4Network(candidates)) for candidates in CANDIDATE_RANGES)


def test_another_range_is_used_where_a_vpn_takes_one_whole() -> None:
    assert choose_block(LAYOUT, [IPv4Network("10.0.0.0/8")]).subnet_of(IPv4Network("172.16.0.0/12"))


def test_no_room_left_says_what_to_do() -> None:
    with pytest.raises(NoFreeNetworkError, match="fix: disconnect the VPN"):
        choose_block(LAYOUT, [IPv4Network(candidates) for candidates in CANDIDATE_RANGES])


def test_the_choice_is_stable_and_differs_between_clusters() -> None:
    other = Layout(name="other", folder=Path("/home/a/other"))
    assert choose_block(LAYOUT, []) == choose_block(LAYOUT, [])
    assert choose_block(LAYOUT, []) != choose_block(other, [])


def test_default_routes_and_the_clusters_own_do_not_count() -> None:
    routes = [
        {"dst": "default", "dev": "eth0"},
        {"dst": "10.0.0.0/24", "dev": "eth0"},
        {"dst": "10.0.0.7", "type": "local", "dev": "eth0"},
        {"dst": "10.64.0.0/18", "dev": "ath-local-12345"},
    ]
    assert list(_destinations(routes, but_not_of="ath-local-12345")) == [
        IPv4Network("10.0.0.0/24"),
        IPv4Network("10.0.0.7/32"),
    ]


def test_stopped_siblings_keep_their_blocks(tmp_path: Path) -> None:
    state.save(tmp_path / "one" / "state.json", state.State(block="10.64.0.0/18"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "state.json").write_text("{torn")
    blocks = blocks_of_siblings(Layout(name="three", folder=tmp_path / "three"))
    assert blocks == [IPv4Network("10.64.0.0/18")]
