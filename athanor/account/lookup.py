"""Lookup of a stack's resource in the account without its id: by its name, or by the resource it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from athanor.account.errors import CloudError
from athanor.account.listed import Listed, Match, of_another_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from athanor.account.cloud import Cloud

    Inputs = Mapping[str, Any]

_CLUSTERS_A_PAGE = 50
_ABSENT = {
    *("EntityNotExist", "EntityNotExist.Role", "EntityNotExist.Policy", "EntityNotExist.Role.Policy", "AddonNotFound"),
    *("ErrorClusterNotFound", "InvalidVpcId.NotFound", "InvalidVpcID.NotFound", "InvalidSnatTableId.NotFound"),
    *("InvalidAllocationId.NotFound", "InvalidSecurityGroupId.NotFound", "InvalidFileSystem.NotFound"),
    *("Forbidden.NasNotFound", "InvalidAccessGroup.NotFound"),
}
"""Codes that say: it is not there, or what it would be a part of is not. Others end in NotFound, too, and say something
else: an access key, an operation."""


def _rule(cloud: Cloud, inputs: Inputs) -> list[Match]:
    direction = str(inputs["type"])
    answer = cloud.rpc(
        "ecs", "DescribeSecurityGroupAttribute", SecurityGroupId=inputs["securityGroupId"], Direction=direction
    )
    peer = "SourceCidrIp" if direction == "ingress" else "DestCidrIp"
    declared = [str(inputs[name]).lower() for name in ("ipProtocol", "portRange", "cidrIp", "policy", "priority")]
    template = "{securityGroupId}:{type}:{ipProtocol}:{portRange}:{nicType}:{cidrIp}:{policy}:{priority}"
    rules: list[dict[str, Any]] = answer["Permissions"]["Permission"]
    fields = ("IpProtocol", "PortRange", peer, "Policy", "Priority")
    exists = any([str(rule.get(name, "")).lower() for name in fields] == declared for rule in rules)
    return [Match(id=template.format_map({**inputs, "priority": int(inputs["priority"])}))] if exists else []


def _role(cloud: Cloud, inputs: Inputs) -> list[Match]:
    return [Match(id=cloud.rpc("ram", "GetRole", RoleName=inputs["roleName"])["Role"]["RoleName"])]


def _policy(cloud: Cloud, inputs: Inputs) -> list[Match]:
    answer = cloud.rpc("ram", "GetPolicy", PolicyName=inputs["policyName"], PolicyType="Custom")
    return [Match(id=answer["Policy"]["PolicyName"])]


def _attachment(cloud: Cloud, inputs: Inputs) -> list[Match]:
    attached = cloud.rpc("ram", "ListPoliciesForRole", RoleName=inputs["roleName"])["Policies"]["Policy"]
    names = [(policy["PolicyName"], policy["PolicyType"]) for policy in attached]
    match = Match(id="role:{policyName}:{policyType}:{roleName}".format_map(inputs))
    return [match] if (inputs["policyName"], inputs["policyType"]) in names else []


def _cluster(cloud: Cloud, inputs: Inputs) -> list[Match]:
    return [
        Match(id=cluster["cluster_id"], status=cluster.get("state", ""))
        for cluster in clusters(cloud)
        if cluster["name"] == inputs["name"]
        and cluster.get("region_id", cloud.region) == cloud.region
        and not of_another_owner(cluster, inputs)
    ]


def clusters(cloud: Cloud) -> Iterable[dict[str, Any]]:
    """Yield the ACK clusters of the account, of every region."""
    page = 1
    while True:
        answer = cloud.get(
            "/api/v1/clusters", "DescribeClustersV1", page_number=str(page), page_size=str(_CLUSTERS_A_PAGE)
        )
        yield from answer["clusters"]
        if page * _CLUSTERS_A_PAGE >= answer["page_info"]["total_count"]:
            return
        page += 1


def _pool(cloud: Cloud, inputs: Inputs) -> list[Match]:
    answer = cloud.get(f"/clusters/{inputs['clusterId']}/nodepools", "DescribeClusterNodePools")
    return [
        Match(
            id=f"{inputs['clusterId']}:{pool['nodepool_info']['nodepool_id']}",
            status=pool.get("status", {}).get("state", ""),
        )
        for pool in answer["nodepools"]
        if pool["nodepool_info"]["name"] == inputs["nodePoolName"]
    ]


def _addon(cloud: Cloud, inputs: Inputs) -> list[Match]:
    path = f"/clusters/{inputs['clusterId']}/addon_instances/{inputs['name']}"
    answer = cloud.get(path, "GetClusterAddonInstance")
    return [Match(id="{clusterId}:{name}".format_map(inputs), status=answer.get("state", ""))]


def _service(cloud: Cloud, inputs: Inputs) -> list[Match]:
    answer = cloud.rpc("nas", "DescribeProtocolService", FileSystemId=inputs["fileSystemId"])
    return [
        Match(id=f"{inputs['fileSystemId']}:{service['ProtocolServiceId']}", status=service.get("Status", ""))
        for service in answer["ProtocolServices"]
        if service["ProtocolType"] == inputs["protocolType"]
    ]


def _export(cloud: Cloud, inputs: Inputs) -> list[Match]:
    answer = cloud.rpc("nas", "DescribeProtocolMountTarget", FileSystemId=inputs["fileSystemId"])
    return [
        Match(
            id="{fileSystemId}:{protocolServiceId}:{ExportId}".format_map({**inputs, **export}),
            status=export.get("Status", ""),
        )
        for export in answer["ProtocolMountTargets"]
        if (export["ProtocolServiceId"], export["Path"]) == (inputs["protocolServiceId"], inputs["path"])
    ]


_ACCESS_RULES = Listed(
    product="nas",
    operation="DescribeAccessRules",
    place="AccessRules.AccessRule",
    within={"AccessGroupName": "accessGroupName", "FileSystemType": "fileSystemType"},
    same={"SourceCidrIp": "sourceCidrIp"},
    id="{accessGroupName}:{AccessRuleId}:{fileSystemType}",
)


def _access_rule(cloud: Cloud, inputs: Inputs) -> list[Match]:
    return [Match(id=match.id.removesuffix(":standard")) for match in _ACCESS_RULES(cloud, inputs)]


LOOKUPS: Mapping[str, Callable[[Cloud, Inputs], list[Match]]] = {
    "alicloud:vpc/network:Network": Listed(
        product="vpc", operation="DescribeVpcs", place="Vpcs.Vpc", same={"VpcName": "vpcName"}, id="{VpcId}"
    ),
    "alicloud:vpc/switch:Switch": Listed(
        product="vpc",
        operation="DescribeVSwitches",
        place="VSwitches.VSwitch",
        within={"VpcId": "vpcId"},
        same={"VSwitchName": "vswitchName"},
        id="{VSwitchId}",
    ),
    "alicloud:vpc/natGateway:NatGateway": Listed(
        product="vpc",
        operation="DescribeNatGateways",
        place="NatGateways.NatGateway",
        within={"VpcId": "vpcId"},
        same={"Name": "natGatewayName"},
        id="{NatGatewayId}",
    ),
    "alicloud:vpc/snatEntry:SnatEntry": Listed(
        product="vpc",
        operation="DescribeSnatTableEntries",
        place="SnatTableEntries.SnatTableEntry",
        within={"SnatTableId": "snatTableId"},
        same={"SnatEntryName": "snatEntryName"},
        id="{snatTableId}:{SnatEntryId}",
    ),
    "alicloud:ecs/eipAddress:EipAddress": Listed(
        product="vpc",
        operation="DescribeEipAddresses",
        place="EipAddresses.EipAddress",
        same={"Name": "addressName"},
        id="{AllocationId}",
    ),
    "alicloud:ecs/eipAssociation:EipAssociation": Listed(
        product="vpc",
        operation="DescribeEipAddresses",
        place="EipAddresses.EipAddress",
        within={"AllocationId": "allocationId"},
        same={"AllocationId": "allocationId", "InstanceId": "instanceId"},
        id="{allocationId}:{instanceId}",
    ),
    "alicloud:ecs/securityGroup:SecurityGroup": Listed(
        product="ecs",
        operation="DescribeSecurityGroups",
        place="SecurityGroups.SecurityGroup",
        within={"VpcId": "vpcId"},
        same={"SecurityGroupName": "securityGroupName"},
        id="{SecurityGroupId}",
    ),
    "alicloud:ecs/securityGroupRule:SecurityGroupRule": _rule,
    "alicloud:ecs/ecsDeploymentSet:EcsDeploymentSet": Listed(
        product="ecs",
        operation="DescribeDeploymentSets",
        place="DeploymentSets.DeploymentSet",
        same={"DeploymentSetName": "deploymentSetName"},
        id="{DeploymentSetId}",
    ),
    "alicloud:ram/role:Role": _role,
    "alicloud:ram/policy:Policy": _policy,
    "alicloud:ram/rolePolicyAttachment:RolePolicyAttachment": _attachment,
    "alicloud:cs/managedKubernetes:ManagedKubernetes": _cluster,
    "alicloud:cs/nodePool:NodePool": _pool,
    "alicloud:cs/kubernetesAddon:KubernetesAddon": _addon,
    "alicloud:nas/fileSystem:FileSystem": Listed(
        product="nas",
        operation="DescribeFileSystems",
        place="FileSystems.FileSystem",
        within={"FileSystemType": "fileSystemType"},
        same={"Description": "description"},
        id="{FileSystemId}",
    ),
    "alicloud:nas/accessGroup:AccessGroup": Listed(
        product="nas",
        operation="DescribeAccessGroups",
        place="AccessGroups.AccessGroup",
        within={"FileSystemType": "fileSystemType"},
        same={"AccessGroupName": "accessGroupName"},
        id="{accessGroupName}:{fileSystemType}",
    ),
    "alicloud:nas/accessRule:AccessRule": _access_rule,
    "alicloud:nas/mountTarget:MountTarget": Listed(
        product="nas",
        operation="DescribeMountTargets",
        place="MountTargets.MountTarget",
        within={"FileSystemId": "fileSystemId"},
        same={"VswId": "vswitchId", "AccessGroup": "accessGroupName"},
        id="{fileSystemId}:{MountTargetDomain}",
    ),
    "alicloud:nas/protocolService:ProtocolService": _service,
    "alicloud:nas/protocolMountTarget:ProtocolMountTarget": _export,
}
"""Look-ups by type token. A mount target is identified by vswitch and access group: NAS gives it no name."""
REPEATABLE = {"alicloud:cs/autoscalingConfig:AutoscalingConfig"}
"""Kinds without anything to adopt: making them again sets the same thing once more."""


def candidates(cloud: Cloud, kind: str, inputs: Inputs) -> list[Match]:
    """Return the candidates in the account for a resource of a kind with these inputs.

    Raises:
        CloudError: the cloud refused to say.
    """
    try:
        return LOOKUPS[kind](cloud, inputs)
    except CloudError as error:
        if error.code in _ABSENT:
            return []
        raise
