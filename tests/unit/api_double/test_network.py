"""VPC, vswitches, NAT gateways, SNAT entries, EIPs and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.tables import each_row
from tests.unit.api_double.api_client import Client, RefusedError
from tests.unit.api_double.conftest import REGION, ZONE, Network, settle

if TYPE_CHECKING:
    from tests.api_double.double import ApiDouble


def nat_gateway(client: Client, network: Network) -> dict[str, Any]:
    made = client.rpc("vpc", "CreateNatGateway", VpcId=network.vpc, VSwitchId=network.vswitch, NatType="Enhanced")
    for _ in range(3):
        described = client.rpc("vpc", "DescribeNatGateways", NatGatewayId=made["NatGatewayId"])
    (gateway,) = described["NatGateways"]["NatGateway"]
    assert gateway["Status"] == "Available"
    return gateway


def eip(client: Client, allocation: str) -> dict[str, Any]:
    (described,) = client.rpc("vpc", "DescribeEipAddresses", AllocationId=allocation)["EipAddresses"]["EipAddress"]
    return described


def bound_eip(client: Client, gateway: str) -> dict[str, Any]:
    allocation = client.rpc("vpc", "AllocateEipAddress", Bandwidth=100, InternetChargeType="PayByTraffic")
    names = {"AllocationId": allocation["AllocationId"], "InstanceId": gateway, "InstanceType": "Nat"}
    client.rpc("vpc", "AssociateEipAddress", **names)
    assert eip(client, allocation["AllocationId"])["Status"] == "Associating"
    assert eip(client, allocation["AllocationId"])["Status"] == "InUse"
    return eip(client, allocation["AllocationId"])


def test_a_vpc_becomes_available_and_is_described(client: Client) -> None:
    made = client.rpc(
        "vpc",
        "CreateVpc",
        RegionId=REGION,
        CidrBlock="10.64.0.0/12",
        VpcName="athanor-dev-vpc",
        Tag=[{"Key": "athanor:stack", "Value": "dev"}],
    )
    seen = [client.rpc("vpc", "DescribeVpcAttribute", VpcId=made["VpcId"]) for _ in range(2)]
    assert [one["Status"] for one in seen] == ["Pending", "Available"]
    assert seen[0]["Tags"] == {"Tag": [{"Key": "athanor:stack", "Value": "dev"}]}
    assert not [name for name in seen[0] if name.startswith("_")]
    tables = client.rpc("vpc", "DescribeRouteTableList", VpcId=made["VpcId"])["RouterTableList"]
    (table,) = tables["RouterTableListType"]
    assert (table["RouteTableType"], table["VpcId"]) == ("System", made["VpcId"])
    client.rpc("vpc", "ModifyRouteTableAttributes", RouteTableId=table["RouteTableId"], RouteTableName="main")
    client.rpc("vpc", "ModifyVpcAttribute", VpcId=made["VpcId"], VpcName="renamed", EnableDnsHostname=True)
    renamed = client.rpc("vpc", "DescribeVpcAttribute", VpcId=made["VpcId"])
    assert (renamed["VpcName"], renamed["DnsHostnameStatus"]) == ("renamed", "ENABLED")


@each_row(
    ("parameters", "code"),
    [
        ({"CidrBlock": "10.0.0.1/8"}, "InvalidCidrBlock.Malformed"),
        ({"CidrBlock": "10.0.0.0/7"}, "InvalidCidrBlock.Malformed"),
        ({"CidrBlock": "100.64.0.0/12"}, "InvalidCidrBlock.Malformed"),
        ({"VpcName": "x"}, "InvalidVpcName.Malformed"),
        ({"VpcName": "http://x"}, "InvalidVpcName.Malformed"),
        ({"Description": "x" * 257}, "InvalidDescription.Malformed"),
        ({"RegionId": "mars-1"}, "InvalidRegionId.NotFound"),
        ({"Tag": [{"Key": "acs:own"}]}, "InvalidTagKey.Malformed"),
        ({"Tag": [{"Key": "k", "Value": "v" * 129}]}, "InvalidTagValue.Malformed"),
        ({"Tag": [{"Key": str(number)} for number in range(21)]}, "NumberExceed.Tags"),
    ],
)
def test_a_vpc_that_cannot_be_is_refused(client: Client, parameters: dict[str, object], code: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.rpc("vpc", "CreateVpc", **parameters)
    assert refused.value.code == code


@each_row(
    ("parameters", "code"),
    [
        ({"CidrBlock": "192.168.0.0/24"}, "InvalidCidrBlock.Malformed"),
        ({"CidrBlock": "10.0.0.0/12"}, "InvalidCidrBlock.Malformed"),
        ({"CidrBlock": "10.0.8.0/24"}, "InvalidCidrBlock.Overlapped"),
        ({"ZoneId": "cn-shanghai-a"}, "InvalidZoneId.NotFound"),
        ({"VpcId": "vpc-none"}, "InvalidVpcID.NotFound"),
        ({"CidrBlock": ""}, "MissingParameter"),
    ],
)
def test_a_vswitch_that_cannot_be_is_refused(network: Network, parameters: dict[str, str], code: str) -> None:
    given = {"VpcId": network.vpc, "CidrBlock": "10.1.0.0/20", "ZoneId": ZONE}
    with pytest.raises(RefusedError) as refused:
        network.client.rpc("vpc", "CreateVSwitch", **{**given, **parameters})
    assert refused.value.code == code


def test_a_vswitch_waits_for_its_vpc(client: Client) -> None:
    vpc = client.rpc("vpc", "CreateVpc", CidrBlock="10.0.0.0/8")["VpcId"]
    with pytest.raises(RefusedError, match="TaskConflict"):
        client.rpc("vpc", "CreateVSwitch", VpcId=vpc, CidrBlock="10.0.0.0/20", ZoneId=ZONE)


def test_zones_outside_china_have_no_dash(client: Client) -> None:
    region = "ap-southeast-1"
    vpc = client.rpc("vpc", "CreateVpc", RegionId=region, CidrBlock="10.0.0.0/8")["VpcId"]
    settle(client, "DescribeVpcAttribute", VpcId=vpc)
    client.rpc("vpc", "CreateVSwitch", RegionId=region, VpcId=vpc, CidrBlock="10.0.0.0/20", ZoneId="ap-southeast-1a")


def test_a_network_is_taken_apart_from_the_leaves(double: ApiDouble, network: Network) -> None:
    client = network.client
    gateway = nat_gateway(client, network)
    identifier, table = gateway["NatGatewayId"], gateway["SnatTableIds"]["SnatTableId"][0]
    address = bound_eip(client, identifier)
    group = client.rpc("ecs", "CreateSecurityGroup", VpcId=network.vpc)["SecurityGroupId"]
    entry = client.rpc(
        "vpc", "CreateSnatEntry", SnatTableId=table, SnatIp=address["IpAddress"], SourceVSwitchId=network.vswitch
    )["SnatEntryId"]
    binding = {"AllocationId": address["AllocationId"], "InstanceId": identifier, "InstanceType": "Nat"}
    steps = [
        (
            {"DeleteVpc": {"VpcId": network.vpc}},
            {"DependencyViolation.VSwitch"},
        ),
        ({"DeleteVSwitch": {"VSwitchId": network.vswitch}}, {"DependencyViolation.EnhancedNatgw"}),
        ({"DeleteNatGateway": {"NatGatewayId": identifier}}, {"DependencyViolation.SnatEntry"}),
        ({"UnassociateEipAddress": binding}, {"InvalidIpStatus.HasBeenUsedBySnatTable"}),
        ({"ReleaseEipAddress": {"AllocationId": address["AllocationId"]}}, {"IncorrectEipStatus"}),
        ({"DeleteSnatEntry": {"SnatTableId": table, "SnatEntryId": entry}}, set()),
        ({"DescribeSnatTableEntries": {"SnatTableId": table}}, set()),
        ({"DescribeSnatTableEntries": {"SnatTableId": table}}, set()),
        ({"DeleteNatGateway": {"NatGatewayId": identifier}}, {"DependencyViolation.EIPS"}),
        ({"UnassociateEipAddress": binding}, set()),
        ({"DescribeEipAddresses": {}}, set()),
        ({"DescribeEipAddresses": {}}, set()),
        ({"ReleaseEipAddress": {"AllocationId": address["AllocationId"]}}, set()),
        ({"DeleteNatGateway": {"NatGatewayId": identifier}}, set()),
        # while it is being deleted it still exists, for the vswitch as for callers
        ({"DeleteVSwitch": {"VSwitchId": network.vswitch}}, {"DependencyViolation.EnhancedNatgw"}),
        ({"DescribeNatGateways": {}}, set()),
        ({"DeleteVSwitch": {"VSwitchId": network.vswitch}}, set()),
        ({"DeleteVpc": {"VpcId": network.vpc}}, {"DependencyViolation.VSwitch"}),
        ({"DeleteVpc": {"VpcId": network.vpc}}, {"DependencyViolation.SecurityGroup"}),
    ]
    for call, codes in steps:
        ((operation, parameters),) = call.items()
        assert refusals(client, operation, parameters) == codes, operation
    client.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=group)
    client.rpc("vpc", "DeleteVpc", VpcId=network.vpc)
    for operation, parameters in (
        ("DescribeVpcs", {}),
        ("DescribeVpcs", {}),
        ("DescribeEipAddresses", {}),
        ("DescribeEipAddresses", {}),
    ):
        refusals(client, operation, parameters)
    assert double.inventory() == {}


def refusals(client: Client, operation: str, parameters: dict[str, str]) -> set[str]:
    try:
        client.rpc("vpc", operation, **parameters)
    except RefusedError as refused:
        return {refused.code}
    return set()


def test_a_protected_nat_gateway_refuses_and_a_forced_delete_takes_all(double: ApiDouble, network: Network) -> None:
    client = network.client
    gateway = nat_gateway(client, network)
    address = bound_eip(client, gateway["NatGatewayId"])
    table = gateway["SnatTableIds"]["SnatTableId"][0]
    client.rpc("vpc", "CreateSnatEntry", SnatTableId=table, SnatIp=address["IpAddress"], SourceCIDR="10.0.0.0/8")
    protect = {"InstanceId": gateway["NatGatewayId"], "Type": "NATGW"}
    client.rpc("vpc", "DeletionProtection", ProtectionEnable=True, **protect)
    with pytest.raises(RefusedError, match=r"OperationDenied\.DeletionProtection"):
        client.rpc("vpc", "DeleteNatGateway", NatGatewayId=gateway["NatGatewayId"], Force=True)
    client.rpc("vpc", "DeletionProtection", ProtectionEnable=False, **protect)
    client.rpc("vpc", "DeleteNatGateway", NatGatewayId=gateway["NatGatewayId"], Force=True)
    assert "snat_entry" not in double.inventory()
    assert eip(client, address["AllocationId"])["Status"] == "Available"


@each_row(
    ("parameters", "code"),
    [
        ({"NatType": "Normal"}, "InvalidNatType.NotSupported"),
        ({"VSwitchId": ""}, "MissingParameter"),
        ({"VSwitchId": "vsw-none"}, "InvalidVswitchID.NotFound"),
        ({"InternetChargeType": "Free"}, "InvalidParameter.InternetChargeType"),
    ],
)
def test_a_nat_gateway_that_cannot_be_is_refused(network: Network, parameters: dict[str, str], code: str) -> None:
    given = {"VpcId": network.vpc, "VSwitchId": network.vswitch, "NatType": "Enhanced"}
    with pytest.raises(RefusedError) as refused:
        network.client.rpc("vpc", "CreateNatGateway", **{**given, **parameters})
    assert refused.value.code == code


def test_an_snat_entry_needs_an_eip_of_the_gateway_and_a_vswitch_of_its_vpc(network: Network) -> None:
    client = network.client
    gateway = nat_gateway(client, network)
    table = gateway["SnatTableIds"]["SnatTableId"][0]
    other = client.rpc("vpc", "CreateVpc", CidrBlock="10.0.0.0/8")["VpcId"]
    settle(client, "DescribeVpcAttribute", VpcId=other)
    elsewhere = Network(client, other, "").add_vswitch("10.0.0.0/20")
    unbound = client.rpc("vpc", "AllocateEipAddress")["EipAddress"]
    address = bound_eip(client, gateway["NatGatewayId"])["IpAddress"]

    def create(**parameters: str) -> None:
        client.rpc("vpc", "CreateSnatEntry", **{"SnatTableId": table, "SnatIp": address, **parameters})

    create(SourceVSwitchId=network.vswitch)
    for parameters, code in (
        ({"SourceVSwitchId": elsewhere}, "InvalidSourceVSwitchId.NotInVpc"),
        ({"SourceVSwitchId": network.vswitch}, "Forbidden.SourceCIDR.Duplicated"),
        ({"SourceVSwitchId": network.vswitch, "SnatIp": unbound}, "EIP_NOT_IN_GATEWAY"),
        ({"SourceVSwitchId": network.vswitch, "SnatTableId": "stb-none"}, "InvalidSnatTableId.NotFound"),
        ({}, "InvalidParameter"),
    ):
        with pytest.raises(RefusedError) as refused:
            create(**parameters)
        assert refused.value.code == code


def test_a_bound_eip_can_be_bound_to_nothing_else(network: Network) -> None:
    client = network.client
    gateway = nat_gateway(client, network)["NatGatewayId"]
    address = bound_eip(client, gateway)
    with pytest.raises(RefusedError, match="IncorrectEipStatus"):
        client.rpc(
            "vpc", "AssociateEipAddress", AllocationId=address["AllocationId"], InstanceId=gateway, InstanceType="Nat"
        )
    with pytest.raises(RefusedError, match=r"InvalidBandwidth\.Malformed"):
        client.rpc("vpc", "AllocateEipAddress", Bandwidth=201, InternetChargeType="PayByTraffic")
    client.rpc("vpc", "ModifyEipAddressAttribute", AllocationId=address["AllocationId"], Bandwidth=50, Name="out")
    assert (eip(client, address["AllocationId"])["Bandwidth"], eip(client, address["AllocationId"])["Name"]) == (
        "50",
        "out",
    )


def test_addresses_are_given_out_once_and_again_after_release(client: Client) -> None:
    first, second = (client.rpc("vpc", "AllocateEipAddress") for _ in range(2))
    assert first["EipAddress"] != second["EipAddress"]
    client.rpc("vpc", "ReleaseEipAddress", AllocationId=first["AllocationId"])
    for _ in range(2):
        client.rpc("vpc", "DescribeEipAddresses")
    assert client.rpc("vpc", "AllocateEipAddress")["EipAddress"] == first["EipAddress"]


def test_tags_are_added_listed_in_parts_and_taken_away(network: Network) -> None:
    client = network.client
    names = {"ResourceType": "VSWITCH", "ResourceId": [network.vswitch]}
    tags = [{"Key": f"key-{number}", "Value": str(number)} for number in range(5)]
    client.rpc("vpc", "TagResources", **names, Tag=tags)
    first = client.rpc("vpc", "ListTagResources", **names, MaxResults=3)
    assert [tag["TagKey"] for tag in first["TagResources"]["TagResource"]] == ["key-0", "key-1", "key-2"]
    second = client.rpc("vpc", "ListTagResources", **names, MaxResults=3, NextToken=first["NextToken"])
    assert [tag["TagKey"] for tag in second["TagResources"]["TagResource"]] == ["key-3", "key-4"]
    assert "NextToken" not in second
    client.rpc("vpc", "UnTagResources", **names, TagKey=[f"key-{number}" for number in range(4)])
    described = client.rpc("vpc", "DescribeVSwitchAttributes", VSwitchId=network.vswitch)
    assert described["Tags"] == {"Tag": [{"Key": "key-4", "Value": "4"}]}
    with pytest.raises(RefusedError, match=r"InvalidResourceId\.NotFound"):
        client.rpc("vpc", "TagResources", ResourceType="VPC", ResourceId=["vpc-none"], Tag=tags)


def test_lists_come_in_pages(network: Network) -> None:
    client = network.client
    added = [network.add_vswitch(f"10.{number}.0.0/20") for number in range(1, 12)]
    pages = [client.rpc("vpc", "DescribeVSwitches", VpcId=network.vpc, PageNumber=page) for page in (1, 2, 3)]
    listed = [vswitch["VSwitchId"] for page in pages for vswitch in page["VSwitches"]["VSwitch"]]
    assert listed == [network.vswitch, *added]
    assert [(page["TotalCount"], page["PageNumber"], page["PageSize"]) for page in pages] == [
        (12, number, 10) for number in (1, 2, 3)
    ]
    with pytest.raises(RefusedError, match=r"InvalidParameter\.PageSize"):
        client.rpc("vpc", "DescribeVSwitches", PageSize=51)
