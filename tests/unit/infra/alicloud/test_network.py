"""The network that an environment asks the cloud for."""

from __future__ import annotations

from itertools import product

import pulumi
import pytest

from infra.alicloud.network import AlicloudNetwork, AlicloudNetworkArgs
from infra.errors import RefusalError
from infra.settings.alicloud import AlicloudSettings
from tests.recording_engine import UNKNOWN, record
from tests.tables import each_row

ZONES = ("cn-hangzhou-i", "cn-hangzhou-j", "cn-hangzhou-k")
TAGS = {"team": "vision", "athanor:project": "athanor", "athanor:stack": "prod"}
SYSTEM = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 3}
EXISTING = {
    "vpc_id": "vpc-theirs",
    "node_vswitch_ids": {zone: f"vsw-n{place}" for place, zone in enumerate(ZONES)},
    "pod_vswitch_ids": {zone: f"vsw-p{place}" for place, zone in enumerate(ZONES)},
    "cidr": "10.0.0.0/16",
}
PROTECTED_KINDS = {
    "alicloud:vpc/network:Network",
    "alicloud:vpc/switch:Switch",
    "alicloud:vpc/natGateway:NatGateway",
    "alicloud:ecs/eipAddress:EipAddress",
}


def _network(*, zones=ZONES[:2], preview=False, made=None, registry_instance=None, **more):
    settings = AlicloudSettings.model_validate(
        {"region": "cn-hangzhou", "zones": list(zones), "node_pools": [SYSTEM], "tags": {"team": "vision"}} | more
    )

    def program():
        args = AlicloudNetworkArgs(settings=settings, registry_instance=registry_instance)
        network = AlicloudNetwork("network", args)
        if made is not None:
            made.append(network)

    return record(program, preview=preview, stack="prod")


def test_the_command_that_links_a_registry_instance_is_printed_once(monkeypatch):
    said = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    recording = _network(registry_instance="cri-ours")
    hooked = [(resource.name, hook) for resource in recording.resources.values() for hook in resource.after_create]
    assert hooked == [("nodes-cn-hangzhou-i", "registry-link")]
    hook = recording.hooks["registry-link"]
    assert hook.opts is None  # not in previews
    hook(pulumi.ResourceHookArgs(urn="urn", id="vsw-1", name="n", type="t", new_outputs={"vpcId": "vpc-1"}))
    [command] = said
    assert "--InstanceId cri-ours --ModuleName Registry --VpcId vpc-1 --VswitchId vsw-1" in command
    assert not [resource for resource in _network().resources.values() if resource.after_create]


def _inputs(recording):
    """Return the inputs of everything that becomes something in the cloud, by logical name."""
    return {resource.name: resource.inputs for resource in recording.resources.values() if resource.custom}


def test_an_environment_of_one_zone_asks_for_exactly_this():
    rule = {
        "securityGroupId": "security-group-id",
        "ipProtocol": "all",
        "portRange": "-1/-1",
        "nicType": "intranet",
        "policy": "accept",
        "priority": 1,
    }
    assert _inputs(_network(zones=ZONES[:1])) == {
        "vpc": {"vpcName": "athanor-prod-vpc", "cidrBlock": "10.64.0.0/12", "tags": TAGS},
        "nodes-cn-hangzhou-i": {
            "vswitchName": "athanor-prod-nodes-cn-hangzhou-i",
            "vpcId": "vpc-id",
            "zoneId": "cn-hangzhou-i",
            "cidrBlock": "10.64.0.0/19",
            "tags": TAGS,
        },
        "pods-cn-hangzhou-i": {
            "vswitchName": "athanor-prod-pods-cn-hangzhou-i",
            "vpcId": "vpc-id",
            "zoneId": "cn-hangzhou-i",
            "cidrBlock": "10.65.0.0/16",
            "tags": TAGS,
        },
        "security-group": {
            "securityGroupName": "athanor-prod-nodes-and-pods",
            "securityGroupType": "enterprise",
            "vpcId": "vpc-id",
            "tags": TAGS,
        },
        "security-group-ingress": {
            **rule,
            "type": "ingress",
            "cidrIp": "10.64.0.0/12",
            "description": "Nodes, pods and the control plane reach each other",
        },
        "security-group-egress": {
            **rule,
            "type": "egress",
            "cidrIp": "0.0.0.0/0",
            "description": "Everybody inside may call out",
        },
        "nat-gateway": {
            "natGatewayName": "athanor-prod-nat",
            "vpcId": "vpc-id",
            "vswitchId": "nodes-cn-hangzhou-i-id",
            "natType": "Enhanced",
            "networkType": "internet",
            "paymentType": "PayAsYouGo",
            "internetChargeType": "PayByLcu",
            "deletionProtection": False,
            "tags": TAGS,
        },
        "nat-address": {
            "addressName": "athanor-prod-nat",
            "bandwidth": "100",
            "paymentType": "PayAsYouGo",
            "internetChargeType": "PayByTraffic",
            "isp": "BGP",
            "tags": TAGS,
        },
        "nat-address-association": {
            "allocationId": "nat-address-id",
            "instanceId": "nat-gateway-id",
            "instanceType": "Nat",
        },
        # the gateway's table and the address are outputs that only the cloud knows
        "snat-nodes-cn-hangzhou-i": {
            "snatEntryName": "athanor-prod-snat-nodes-cn-hangzhou-i",
            "sourceVswitchId": "nodes-cn-hangzhou-i-id",
        },
        "snat-pods-cn-hangzhou-i": {
            "snatEntryName": "athanor-prod-snat-pods-cn-hangzhou-i",
            "sourceVswitchId": "pods-cn-hangzhou-i-id",
        },
    }


def test_a_preview_knows_table_and_address_only_later():
    for entry in _network(preview=True).of_type("alicloud:vpc/snatEntry:SnatEntry"):
        assert entry.inputs["snatTableId"] is entry.inputs["snatIp"] is entry.inputs["sourceVswitchId"] is UNKNOWN


@each_row("existing", [None, EXISTING], ids=["own", "existing"])
def test_nobody_outside_is_let_in(existing):
    recording = _network(network={"existing": existing})
    rules = recording.of_type("alicloud:ecs/securityGroupRule:SecurityGroupRule")
    [ingress] = [rule.inputs["cidrIp"] for rule in rules if rule.inputs["type"] == "ingress"]
    assert ingress == ("10.0.0.0/16" if existing else "10.64.0.0/12")
    # An enterprise group refuses rules that name a group.
    assert not any("sourceSecurityGroupId" in rule.inputs for rule in rules)


@each_row(("before", "preview"), product([1, 2], [True, False]))
def test_a_zone_at_the_end_changes_nothing_of_the_zones_before_it(before, preview):
    smaller = _network(zones=ZONES[:before], preview=preview)
    larger = _network(zones=ZONES, preview=preview)
    for urn, resource in smaller.resources.items():
        after = larger.resources[urn]
        if not resource.custom:  # it registers its zones, and refuses others later
            assert (resource.inputs["zones"], after.inputs["zones"]) == (list(ZONES[:before]), list(ZONES))
            continue
        assert (after.inputs, after.depends_on, after.protect) == (
            resource.inputs, resource.depends_on, resource.protect,
        )  # fmt: skip
    added = {larger.resources[urn].name for urn in larger.resources.keys() - smaller.resources.keys()}
    expected = {f"{kind}-{zone}" for kind in ("nodes", "pods", "snat-nodes", "snat-pods") for zone in ZONES[before:]}
    assert added == expected


def test_everything_is_created_after_and_deleted_before_what_contains_it():
    """`destroy` runs in the reverse order: entries, then the address's binding, then gateway and address, …"""
    recording = _network(zones=ZONES)
    vpc = recording.one("vpc").urn
    for zone in ZONES:
        assert vpc in recording.ancestors(recording.one(f"nodes-{zone}"))
        for kind in ("nodes", "pods"):
            before = recording.ancestors(recording.one(f"snat-{kind}-{zone}"))
            names = ("nat-address-association", "nat-gateway", "nat-address", f"{kind}-{zone}", "vpc")
            assert {recording.one(name).urn for name in names} <= before
    assert recording.one(f"nodes-{ZONES[0]}").urn in recording.ancestors(recording.one("nat-gateway"))
    assert recording.one("security-group").urn in recording.ancestors(recording.one("security-group-ingress"))
    # An address belongs to one gateway at a time.
    assert recording.one("nat-address-association").delete_before_replace


def test_what_nodes_wait_for():
    made = []
    recording = _network(made=made)
    [network] = made
    rules = ["security-group-ingress", "security-group-egress"]
    entries = [f"snat-{kind}-{zone}" for kind in ("nodes", "pods") for zone in ZONES[:2]]
    assert [resource._name for resource in network.ready] == rules + entries
    assert list(network.node_vswitch_ids) == list(network.pod_vswitch_ids) == list(ZONES[:2])
    [component] = recording.of_type("athanor:infra:AlicloudNetwork")
    assert component.outputs == {"vpc_id": "vpc-id", "security_group_id": "security-group-id"}
    assert {resource.parent for resource in recording.resources.values() if resource.custom} == {component.urn}


@each_row("protected", [True, False])
def test_protection(protected):
    recording = _network(protected=protected)
    assert {resource.type for resource in recording.resources.values() if resource.protect} == (
        PROTECTED_KINDS if protected else set()
    )
    assert recording.one("nat-gateway").inputs["deletionProtection"] is protected


def test_of_an_existing_network_only_what_is_missing_is_made():
    made = []
    recording = _network(zones=ZONES, network={"existing": EXISTING}, made=made)
    assert set(_inputs(recording)) == {
        *("security-group", "security-group-ingress", "security-group-egress"),
        *("nat-gateway", "nat-address", "nat-address-association"),
        *(f"snat-{kind}-{zone}" for kind in ("nodes", "pods") for zone in ZONES),
    }
    assert recording.one("security-group").inputs["vpcId"] == "vpc-theirs"
    gateway = recording.one("nat-gateway").inputs
    assert (gateway["vpcId"], gateway["vswitchId"]) == ("vpc-theirs", "vsw-n0")
    assert recording.one(f"snat-pods-{ZONES[2]}").inputs["sourceVswitchId"] == "vsw-p2"


def test_a_complete_existing_network_needs_nothing():
    made = []
    network = {"existing": {**EXISTING, "security_group_id": "sg-theirs"}, "nat_gateway": False}
    recording = _network(network=network, made=made)
    assert _inputs(recording) == {}
    assert made[0].ready == ()
    [component] = recording.of_type("athanor:infra:AlicloudNetwork")
    assert component.outputs == {"vpc_id": "vpc-theirs", "security_group_id": "sg-theirs"}


def test_a_vswitch_that_nodes_and_pods_share_has_one_snat_entry():
    shared = {zone: f"vsw-{place}" for place, zone in enumerate(ZONES)}
    existing = {**EXISTING, "node_vswitch_ids": shared, "pod_vswitch_ids": shared}
    recording = _network(zones=ZONES, network={"existing": existing})
    entries = recording.of_type("alicloud:vpc/snatEntry:SnatEntry")
    assert sorted(entry.inputs["sourceVswitchId"] for entry in entries) == list(shared.values())


@each_row(
    ("more", "message"),
    [
        ({"network": {"cidr": "10.64.0.0/22"}}, "alicloud.network.cidr"),
        ({"network": {"existing": {**EXISTING, "pod_vswitch_ids": {}}}}, "pod_vswitch_ids"),
    ],
)
def test_a_network_that_cannot_hold_the_pools_is_refused_before_anything_is_made(more, message):
    with pytest.raises(RefusalError, match=message):
        _network(**more)


def test_bandwidth_is_what_the_settings_say():
    recording = _network(network={"nat_bandwidth_mbps": 20})
    assert recording.one("nat-address").inputs["bandwidth"] == "20"
