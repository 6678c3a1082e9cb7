"""Security groups and deployment sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.tables import each_row
from tests.unit.api_double.api_client import Client, RefusedError

if TYPE_CHECKING:
    from tests.api_double.double import ApiDouble
    from tests.unit.api_double.conftest import Network

IN_GROUP = {"IpProtocol": "all", "PortRange": "-1/-1", "Policy": "accept", "Priority": "1"}


def make_group(network: Network, **parameters: object) -> str:
    return network.client.rpc("ecs", "CreateSecurityGroup", VpcId=network.vpc, **parameters)["SecurityGroupId"]


def rules(client: Client, group: str, direction: str = "all") -> list[dict[str, Any]]:
    answer = client.rpc("ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=group, Direction=direction)
    return answer["Permissions"]["Permission"]


def test_a_group_is_described_with_its_tags_and_policy(network: Network) -> None:
    client = network.client
    group = make_group(network, SecurityGroupName="nodes", Tag=[{"Key": "k", "Value": "v"}])
    make_group(network, SecurityGroupName="others")
    (described,) = client.rpc("ecs", "DescribeSecurityGroups", SecurityGroupId=group)["SecurityGroups"]["SecurityGroup"]
    assert described["Tags"] == {"Tag": [{"TagKey": "k", "TagValue": "v"}]}
    assert (described["SecurityGroupType"], described["VpcId"]) == ("normal", network.vpc)
    assert client.rpc("ecs", "DescribeSecurityGroups", VpcId=network.vpc)["TotalCount"] == 2
    attribute = client.rpc("ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=group)
    assert attribute["InnerAccessPolicy"] == "Accept"
    client.rpc("ecs", "ModifySecurityGroupPolicy", SecurityGroupId=group, InnerAccessPolicy="Drop")
    assert client.rpc("ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=group)["InnerAccessPolicy"] == "Drop"
    client.rpc("ecs", "UntagResources", ResourceType="securitygroup", ResourceId=[group], TagKey=["k"])
    assert client.rpc("ecs", "DescribeSecurityGroups", SecurityGroupIds=f'["{group}"]')["SecurityGroups"][
        "SecurityGroup"
    ][0]["Tags"] == {"Tag": []}


def test_a_rule_is_there_once_however_often_it_is_added(network: Network) -> None:
    client = network.client
    group = make_group(network)
    permission = {**IN_GROUP, "SourceGroupId": group, "NicType": "intranet"}
    for _ in range(2):
        client.rpc("ecs", "AuthorizeSecurityGroup", SecurityGroupId=group, Permissions=[permission])
    client.rpc("ecs", "AuthorizeSecurityGroupEgress", SecurityGroupId=group, **IN_GROUP, DestCidrIp="0.0.0.0/0")
    (rule,) = rules(client, group, "ingress")
    assert (rule["IpProtocol"], rule["Policy"], rule["SourceGroupId"]) == ("ALL", "Accept", group)
    assert len(rules(client, group)) == 2
    flat = {**IN_GROUP, "SourceGroupId": group}
    client.rpc("ecs", "ModifySecurityGroupRule", SecurityGroupId=group, **flat, Description="in-group")
    assert rules(client, group, "ingress")[0]["Description"] == "in-group"
    for _ in range(2):
        client.rpc("ecs", "RevokeSecurityGroup", SecurityGroupId=group, **flat)
    assert [rule["Direction"] for rule in rules(client, group)] == ["egress"]


@each_row(
    ("fields", "code"),
    [
        ({"IpProtocol": "sctp"}, "InvalidIpProtocol.ValueNotSupported"),
        ({"PortRange": "1/65535"}, "InvalidPortRange.Malformed"),
        ({"IpProtocol": "tcp", "PortRange": "-1/-1"}, "InvalidPortRange.Malformed"),
        ({"IpProtocol": "tcp", "PortRange": "90/80"}, "InvalidPortRange.Malformed"),
        ({"Priority": "101"}, "InvalidPriority.ValueNotSupported"),
        ({"Policy": "allow"}, "InvalidPolicy.Malformed"),
        ({"SourceCidrIp": ""}, "MissingParameter"),
        ({"SourceCidrIp": "10.0.0.1/8"}, "InvalidSourceCidrIp.Malformed"),
        ({"SourceGroupId": "sg-none"}, "InvalidSecurityGroupId.NotFound"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(network: Network, fields: dict[str, str], code: str) -> None:
    permission = {**IN_GROUP, "SourceCidrIp": "10.0.0.0/8", **fields}
    with pytest.raises(RefusedError) as refused:
        network.client.rpc(
            "ecs", "AuthorizeSecurityGroup", SecurityGroupId=make_group(network), Permissions=[permission]
        )
    assert refused.value.code == code


def test_an_enterprise_group_knows_addresses_only(network: Network) -> None:
    client = network.client
    group = make_group(network, SecurityGroupType="enterprise")
    with pytest.raises(RefusedError, match="cannot name a security group"):
        client.rpc(
            "ecs", "AuthorizeSecurityGroup", SecurityGroupId=group, Permissions=[{**IN_GROUP, "SourceGroupId": group}]
        )
    with pytest.raises(RefusedError, match=r"InvalidParameter\.InnerAccessPolicy"):
        client.rpc("ecs", "ModifySecurityGroupPolicy", SecurityGroupId=group, InnerAccessPolicy="Accept")
    answer = client.rpc("ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=group)
    assert answer["InnerAccessPolicy"] == "Drop"


def test_a_group_in_use_is_not_deleted(double: ApiDouble, network: Network) -> None:
    client = network.client
    group, other = make_group(network), make_group(network)
    permission = {**IN_GROUP, "SourceGroupId": group}
    for owner in (group, other):
        client.rpc("ecs", "AuthorizeSecurityGroup", SecurityGroupId=owner, Permissions=[permission])
    with pytest.raises(RefusedError, match="DependencyViolation"):
        client.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=group)
    client.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=other)
    with double.account.lock:
        double.account.add("instance", "i-1", {}, uses=[("security_group", group), ("vswitch", network.vswitch)])
    with pytest.raises(RefusedError, match="DependencyViolation"):
        client.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=group)
    with pytest.raises(RefusedError) as refused:
        client.rpc("vpc", "DeleteVSwitch", VSwitchId=network.vswitch)
    assert refused.value.code == "DependencyViolation"
    with double.account.lock:
        double.account.remove("instance", "i-1")
    client.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=group)
    with pytest.raises(RefusedError, match=r"404 InvalidSecurityGroupId\.NotFound"):
        client.rpc("ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=group)


def test_a_deployment_set_lives_and_ends_with_its_members(double: ApiDouble, client: Client) -> None:
    made = client.rpc("ecs", "CreateDeploymentSet", Strategy="LowLatency", DeploymentSetName="close")["DeploymentSetId"]
    with double.account.lock:
        double.account.add("instance", "i-1", {}, uses=[("deployment_set", made)])
    client.rpc("ecs", "ModifyDeploymentSetAttribute", DeploymentSetId=made, Description="a rack")
    answer = client.rpc("ecs", "DescribeDeploymentSets", DeploymentSetIds=f'["{made}"]')
    (described,) = answer["DeploymentSets"]["DeploymentSet"]
    assert (described["DeploymentStrategy"], described["DeploymentSetDescription"]) == ("LowLatency", "a rack")
    assert described["InstanceIds"] == {"InstanceId": ["i-1"]}
    with pytest.raises(RefusedError, match=r"InvalidDeploymentSet\.NotEmpty"):
        client.rpc("ecs", "DeleteDeploymentSet", DeploymentSetId=made)
    with double.account.lock:
        double.account.remove("instance", "i-1")
    client.rpc("ecs", "DeleteDeploymentSet", DeploymentSetId=made)
    client.rpc("ecs", "DeleteDeploymentSet", DeploymentSetId=made)
    with pytest.raises(RefusedError, match=r"InvalidParameter\.Strategy"):
        client.rpc("ecs", "CreateDeploymentSet", Strategy="Close")


def test_zones_and_instance_types_can_be_asked_for(client: Client) -> None:
    zones = client.rpc("ecs", "DescribeZones")["Zones"]["Zone"]
    assert "cn-hangzhou-i" in [zone["ZoneId"] for zone in zones]
    answer = client.rpc("ecs", "DescribeInstanceTypes", InstanceTypes=["ecs.gn7i-c8g1.2xlarge"])
    (kind,) = answer["InstanceTypes"]["InstanceType"]
    assert kind["GPUAmount"] == 1
