"""Addresses are planned without overlap, never move, and are enough for the pools or refused."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.alicloud.addresses import (
    MOST_ZONES,
    check_existing_vswitches,
    check_pod_addresses,
    nodes_by_zone,
    plan_addresses,
    pods_per_node,
    usable_addresses,
)
from infra.errors import RefusalError
from infra.instance_types import instance_type
from infra.settings.alicloud import AlicloudSettings
from infra.settings.alicloud_network import ExistingNetworkSettings, NetworkSettings
from infra.settings.node_pools import LingjunSettings, NodePoolSettings
from tests.tables import each_row

ZONES = tuple(f"cn-hangzhou-{letter}" for letter in "bcdefghijk")
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
EXISTING = ExistingNetworkSettings(
    vpc_id="vpc-1",
    node_vswitch_ids={ZONES[0]: "vsw-n0", ZONES[1]: "vsw-n1"},
    pod_vswitch_ids={ZONES[0]: "vsw-p0", ZONES[1]: "vsw-p1"},
    security_group_id="sg-1",
)


def _pool(name="gpu", types=("ecs.gn7i-c8g1.2xlarge",), **more):
    role = "gpu" if not types or instance_type(types[0]).gpus else "cpu"
    return NodePoolSettings(name=name, role=role, instance_types=types, **({"maximum": 1} | more))


def _settings(zones=ZONES[:2], pools=(), **network):
    # NetworkSettings is checked on its own; here the arithmetic meets any CIDR that it lets through.
    return AlicloudSettings.model_construct(
        region="cn-hangzhou", zones=tuple(zones), network=NetworkSettings(**network), node_pools=tuple(pools)
    )


def _cidrs():
    """Return every VPC that settings accept together with the default addresses of Services or a free replacement."""

    def below(text):
        whole = IPv4Network(text)
        prefixes = st.integers(whole.prefixlen, 22)
        offsets = st.integers(0, whole.num_addresses - 1)
        return st.builds(
            lambda prefix, offset: IPv4Network((int(whole.network_address) + offset, prefix), strict=False),
            prefixes,
            offsets,
        )

    return st.one_of([below(text) for text in PRIVATE])


def _planned(cidr, zones):
    services = next(
        text for text in ("172.21.0.0/20", "10.255.240.0/20") if not IPv4Network(text).overlaps(IPv4Network(cidr))
    )
    settings = _settings(zones=zones, cidr=str(cidr), service_cidr=services)
    return settings, plan_addresses(settings)


@given(cidr=_cidrs(), count=st.integers(1, MOST_ZONES))
def test_vswitches_are_legal_disjoint_and_inside(cidr, count):
    settings, plan = _planned(cidr, ZONES[:count])
    assert [planned.zone for planned in plan] == list(ZONES[:count])
    vswitches = [network for planned in plan for network in (planned.nodes, planned.pods)]
    for place, vswitch in enumerate(vswitches):
        assert vswitch.subnet_of(cidr)
        assert 16 <= vswitch.prefixlen <= 29
        assert not vswitch.overlaps(settings.network.service_cidr)
        assert not any(vswitch.overlaps(other) for other in vswitches[place + 1 :])
    assert all(planned.pods.num_addresses >= planned.nodes.num_addresses for planned in plan)


@given(cidr=_cidrs(), fewer=st.integers(1, MOST_ZONES), more=st.integers(0, MOST_ZONES))
def test_a_zone_added_at_the_end_moves_no_other(cidr, fewer, more):
    _, before = _planned(cidr, ZONES[:fewer])
    _, after = _planned(cidr, ZONES[: min(fewer + more, MOST_ZONES)])
    assert after[:fewer] == before


def test_the_default_plan():
    [first, second] = plan_addresses(_settings())
    assert (str(first.nodes), str(first.pods)) == ("10.64.0.0/19", "10.65.0.0/16")
    assert (str(second.nodes), str(second.pods)) == ("10.66.0.0/19", "10.67.0.0/16")


def test_more_zones_than_blocks_are_refused():
    with pytest.raises(RefusalError, match=r"9 zones.*8 blocks.*Fix: list at most 8 zones"):
        plan_addresses(_settings(zones=ZONES[:9]))


def test_alibaba_cloud_keeps_four_addresses_of_a_vswitch():
    assert usable_addresses(IPv4Network("10.0.0.0/29")) == 4


@each_row(
    ("policy", "zones", "maximum", "expected"),
    [
        ("BALANCE", (), 5, {ZONES[0]: 3, ZONES[1]: 3}),
        ("BALANCE", (ZONES[1],), 5, {ZONES[1]: 5}),
        ("PRIORITY", (), 5, {ZONES[0]: 5, ZONES[1]: 5}),
        ("COST_OPTIMIZED", (), 0, {ZONES[0]: 0, ZONES[1]: 0}),
    ],
)
def test_nodes_of_a_pool_by_zone(policy, zones, maximum, expected):
    pool = _pool(zone_policy=policy, zones=zones, maximum=maximum)
    assert nodes_by_zone(_settings(pools=(pool,)), pool) == expected


@each_row(
    ("types", "more", "expected"),
    [
        (("ecs.gn7i-c8g1.2xlarge",), {}, 45),
        (("ecs.gn7i-c8g1.2xlarge", "ecs.gn7i-c16g1.4xlarge"), {}, 210),  # the larger type decides
        (("ecs.gn7i-c16g1.4xlarge",), {"eni": "exclusive"}, 7),
        (("ecs.gn8is.4xlarge",), {"rdma": True}, 150),
    ],
)
def test_pods_of_a_node(types, more, expected):
    assert pods_per_node(_pool(types=types, **more)) == expected


def test_the_last_node_that_fits_and_the_first_that_does_not():
    """`/18`: a zone's block is a /21, its pods a /22 with 1,020 addresses: 20 nodes x (45 + 5), not 21."""
    fits = _settings(zones=ZONES[:1], pools=(_pool(maximum=20),), cidr="10.64.0.0/18")
    check_pod_addresses(fits)
    too_many = _settings(zones=ZONES[:1], pools=(_pool(maximum=21),), cidr="10.64.0.0/18")
    with pytest.raises(RefusalError) as caught:
        check_pod_addresses(too_many)
    message = str(caught.value)
    assert "alicloud.network.cidr = '10.64.0.0/18'" in message
    assert "gives 1020 pod addresses in cn-hangzhou-b (10.64.4.0/22)" in message
    assert "need 1050 (gpu 21 x 50" in message
    assert "Fix: choose a /17 or larger" in message


def test_pools_add_up_where_they_share_a_zone():
    half = [_pool(name, maximum=11, zones=(zone,)) for name, zone in (("a", ZONES[0]), ("b", ZONES[1]))]
    check_pod_addresses(_settings(pools=half, cidr="10.64.0.0/18"))
    shared = [_pool(name, maximum=11, zones=(ZONES[1],)) for name in ("a", "b")]
    with pytest.raises(RefusalError, match=r"in cn-hangzhou-c .*a 11 x 50, b 11 x 50"):
        check_pod_addresses(_settings(pools=shared, cidr="10.64.0.0/18"))


def test_nodes_can_run_out_before_pods():
    pool = _pool(types=("ecs.gn7i-c16g1.4xlarge",), eni="exclusive", maximum=5)
    # /21: nodes a /28 with 12 addresses, 8 of them not for nodes
    with pytest.raises(
        RefusalError, match=r"gives 12 node addresses.*need 13, including 8 for gateways.*Fix: choose a /20"
    ):
        check_pod_addresses(_settings(zones=ZONES[:1], pools=(pool,), cidr="10.64.0.0/21"))


def test_what_no_vpc_can_hold_is_refused():
    pool = _pool(types=("ecs.ebmgn8v.48xlarge",), maximum=200, zone_policy="PRIORITY")
    with pytest.raises(RefusalError, match=r"187000.*Fix: lower the maximum of a pool.*BALANCE"):
        check_pod_addresses(_settings(pools=(pool,)))


@given(
    maximum=st.integers(0, 2000),
    prefix=st.integers(8, 22),
    policy=st.sampled_from(["PRIORITY", "BALANCE"]),
    types=st.sampled_from([("ecs.g7.large",), ("ecs.gn7i-c8g1.2xlarge",), ("ecs.ebmgn8v.48xlarge",)]),
)
def test_the_prefix_of_the_fix_is_the_smallest_that_would_do(maximum, prefix, policy, types):
    pool = _pool(types=types, maximum=maximum, zone_policy=policy)

    def check(length):
        check_pod_addresses(_settings(pools=(pool,), cidr=f"10.0.0.0/{length}"))

    try:
        check(prefix)
    except RefusalError as refusal:
        offered = re.match(r"choose a /(\d+)", refusal.fix)
        smallest = int(offered[1]) if offered else 7
        for length in range(8, smallest + 1):
            check(length)
        for length in range(smallest + 1, prefix):
            with pytest.raises(RefusalError):
                check(length)


def test_an_existing_network_is_not_measured():
    check_pod_addresses(_settings(pools=(_pool(types=("ecs.ebmgn8v.48xlarge",), maximum=1000),), existing=EXISTING))


def test_lingjun_nodes_take_no_addresses_of_the_vpc():
    lingjun = LingjunSettings(cluster_id="i1", group_id="g1")
    pool = _pool(types=(), minimum=1000, maximum=1000, eni="exclusive", lingjun=lingjun)
    check_pod_addresses(_settings(pools=(pool,), cidr="10.64.0.0/18"))


@each_row("role", ["node", "pod"])
def test_an_existing_network_needs_vswitches_in_every_zone(role):
    check_existing_vswitches(_settings())
    check_existing_vswitches(_settings(existing=EXISTING))
    lacking = EXISTING.model_copy(update={f"{role}_vswitch_ids": {ZONES[0]: "vsw-0"}})
    with pytest.raises(RefusalError, match=rf"{role}_vswitch_ids.*none in zone {ZONES[1]}.*Fix: add {ZONES[1]}"):
        check_existing_vswitches(_settings(existing=lacking))


@each_row(
    ("network", "message"),
    [
        ({"cidr": "10.64.0.1/12"}, "bits set beyond /12. Fix: write 10.64.0.0/12"),
        ({"cidr": "10.64.0.0"}, "is not an IPv4 network. Fix: write address and prefix length"),
        ({"cidr": "10.64.0.0/255.240.0.0"}, "is not an IPv4 network"),
        ({"cidr": "ten"}, "is not an IPv4 network"),
        ({"cidr": "100.64.0.0/12"}, "is not a private network .RFC 1918.. Fix: choose one inside 10.0.0.0/8"),
        ({"cidr": "10.0.0.0/7"}, "is not a private network"),
        ({"cidr": "10.64.0.0/23"}, "is too small.* Fix: choose a /22 or larger"),
        ({"service_cidr": "172.20.0.0/14"}, "is a /14, and ACK accepts /16 to /24"),
        ({"service_cidr": "172.21.0.0/25"}, "is a /25, and ACK accepts /16 to /24"),
        ({"service_cidr": "11.0.0.0/20"}, "is not a private network"),
        (
            {"service_cidr": "10.64.16.0/20"},
            "overlaps the VPC's address range 10.64.0.0/12. Fix:.* such as 172.21.0.0/20",
        ),
        ({"cidr": "172.16.0.0/12"}, "172.21.0.0/20: overlaps .* such as 10.255.240.0/20"),
        ({"existing": {**EXISTING.model_dump(), "vpc_id": "my-vpc"}}, "match pattern"),
        ({"existing": {**EXISTING.model_dump(), "pod_vswitch_ids": {ZONES[0]: "eni-1"}}}, "match pattern"),
        ({"existing": {**EXISTING.model_dump(), "security_group_id": "sg 1"}}, "match pattern"),
        ({"existing": {**EXISTING.model_dump(), "security_group_id": None}}, "neither security_group_id nor cidr"),
        ({"existing": {**EXISTING.model_dump(), "cidr": "172.16.0.0/12"}}, "overlaps the VPC's address range"),
    ],
)
def test_a_network_that_cannot_work_is_refused(network, message):
    with pytest.raises(ValueError, match=message):
        NetworkSettings.model_validate(network)


def test_services_may_overlap_a_cidr_that_is_not_used():
    NetworkSettings.model_validate({"service_cidr": "10.64.0.0/20", "existing": EXISTING.model_dump()})
