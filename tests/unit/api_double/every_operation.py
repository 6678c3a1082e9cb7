"""One life of an account in which each operation of the double is called, with all that can be said and answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.api_double.account import Account
from tests.api_double.cs import ROUTES
from tests.api_double.cs.kubernetes_side import KubernetesSide
from tests.api_double.protocol import Request
from tests.api_double.services import CS_VERSION, RPC_SERVICES
from tests.unit.api_double.api_client import flat
from tests.unit.api_double.cs.service import KUBECONFIG, TERWAY, cluster_body, pool_body

REGION, ZONE = "cn-hangzhou", "cn-hangzhou-i"
TAG = {"Key": "athanor:stack", "Value": "dev"}
TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": ["ecs.aliyuncs.com"]}}
ALLOW = {"Effect": "Allow", "Action": "oss:GetObject", "Resource": "*"}


class WatchedRequest(Request):
    """A request that knows which of its parameters the double looked at."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        object.__setattr__(self, "looked_at", set[str]())

    looked_at: set[str]

    def get(self, name: str, default: str = "") -> str:
        self.looked_at.add(name)
        return super().get(name, default)

    def repeated(self, name: str) -> list[dict[str, str]]:
        self.looked_at.add(name)
        return super().repeated(name)


class WatchedBody(dict[str, Any]):
    """A JSON body that knows which of its fields the double looked at."""

    def __init__(self, content: dict[str, Any], looked_at: set[str]) -> None:
        super().__init__(content)
        self._looked_at = looked_at

    def get(self, key: str, default: Any = None) -> Any:
        self._looked_at.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._looked_at.add(key)
        return super().__getitem__(key)


@dataclass(frozen=True)
class Called:
    """One call."""

    version: str
    operation: str
    answer: Any
    looked_at: set[str]
    """Names of parameters."""


@dataclass
class Life:
    """An account, and what was called."""

    account: Account = field(default_factory=lambda: Account(settling_reads=0))
    calls: list[Called] = field(default_factory=list[Called])

    def rpc(self, product: str, operation: str, **parameters: object) -> dict[str, Any]:
        version, service = next(item for item in RPC_SERVICES.items() if item[1].product == product)
        request = WatchedRequest(
            product=product, operation=operation, parameters=flat(parameters), region=REGION, access_key_id="LTAI"
        )
        answer = service.operations[operation](self.account, request)
        self.calls.append(Called(version, operation, answer, request.looked_at))
        return answer

    def roa(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        route, names = next((one, groups) for one in ROUTES if (groups := one.match(method, path)) is not None)
        facts = {"product": "cs", "operation": route.operation, "parameters": query, "region": REGION}
        request = WatchedRequest(**facts, method=method, path=path)
        watched = WatchedBody(body, request.looked_at) if isinstance(body, dict) else body
        object.__setattr__(request, "body", watched)
        answer = route.handler(self.account, request, **names)
        self.calls.append(Called(CS_VERSION, route.operation, answer, request.looked_at))
        return answer


def every_operation() -> list[Called]:
    """Call each operation at least once."""
    life = Life()
    side = life.account.kubernetes = KubernetesSide(life.account, KUBECONFIG)
    side.close()
    vpc, vswitch, pods = _network(life)
    group = _security(life, vpc)
    _identity(life)
    _files(life, vpc, vswitch)
    _parallel_files(life, vpc, vswitch)
    _cluster(life, vpc, vswitch, pods, group)
    life.rpc("ecs", "DeleteSecurityGroup", SecurityGroupId=group)
    for one in (vswitch, pods):
        life.rpc("vpc", "DeleteVSwitch", VSwitchId=one)
    life.rpc("vpc", "DeleteVpc", VpcId=vpc)
    return life.calls


def _network(life: Life) -> tuple[str, str, str]:
    words = {"Description": "as created"}
    made = life.rpc(
        "vpc", "CreateVpc", RegionId=REGION, CidrBlock="10.0.0.0/8", VpcName="net", Tag=[TAG], ClientToken="t", **words
    )
    vpc = made["VpcId"]
    life.rpc("vpc", "DescribeVpcAttribute", VpcId=vpc)
    life.rpc("vpc", "DescribeVpcs", VpcId=vpc, PageNumber=1, PageSize=10)
    life.rpc("vpc", "ModifyVpcAttribute", VpcId=vpc, VpcName="other", Description="d2", EnableDnsHostname=True)
    life.rpc("vpc", "DescribeRouteTableList", VpcId=vpc)
    table = {"RouteTableId": made["RouteTableId"], "RouteTableName": "main", "RoutePropagationEnable": False}
    life.rpc("vpc", "ModifyRouteTableAttributes", **table)
    vswitch, pods = (
        life.rpc("vpc", "CreateVSwitch", VpcId=vpc, CidrBlock=block, ZoneId=ZONE, VSwitchName="net", Tag=[TAG], **words)
        for block in ("10.1.0.0/20", "10.2.0.0/16")
    )
    vswitch, pods = vswitch["VSwitchId"], pods["VSwitchId"]
    life.rpc("vpc", "DescribeVSwitchAttributes", VSwitchId=vswitch)
    life.rpc("vpc", "DescribeVSwitchAttributes", VSwitchId=pods)
    life.rpc("vpc", "DescribeVSwitches", VpcId=vpc)
    life.rpc("vpc", "ModifyVSwitchAttribute", VSwitchId=vswitch, VSwitchName="other", Description="d2")
    tagged = {"ResourceType": "VPC", "ResourceId": [vpc]}
    life.rpc("vpc", "TagResources", **tagged, Tag=[TAG])
    life.rpc("vpc", "ListTagResources", **tagged, MaxResults=50)
    life.rpc("vpc", "UnTagResources", **tagged, TagKey=["athanor:stack"])
    _egress(life, vpc, vswitch)
    return vpc, vswitch, pods


def _egress(life: Life, vpc: str, vswitch: str) -> None:
    made = life.rpc("vpc", "CreateNatGateway", VpcId=vpc, VSwitchId=vswitch, NatType="Enhanced", Name="nat")
    gateway, table = made["NatGatewayId"], made["SnatTableIds"]["SnatTableId"][0]
    life.rpc("vpc", "DescribeNatGateways", NatGatewayId=gateway)
    address = life.rpc("vpc", "AllocateEipAddress", Bandwidth=100, InternetChargeType="PayByTraffic", Name="out")
    allocation = {"AllocationId": address["AllocationId"]}
    life.rpc("vpc", "ModifyEipAddressAttribute", **allocation, Bandwidth=50, Name="other", Description="d2")
    life.rpc("vpc", "TagResources", ResourceType="EIP", ResourceId=[address["AllocationId"]], Tag=[TAG])
    life.rpc("vpc", "AssociateEipAddress", **allocation, InstanceId=gateway, InstanceType="Nat")
    life.rpc("vpc", "DescribeEipAddresses", **allocation)
    life.rpc("vpc", "DescribeNatGateways", NatGatewayId=gateway)
    life.rpc("vpc", "ModifyNatGatewayAttribute", NatGatewayId=gateway, Name="other", Description="d2")
    life.rpc("vpc", "DescribeNatGateways", NatGatewayId=gateway)
    for protected in (True, False):
        life.rpc("vpc", "DeletionProtection", InstanceId=gateway, Type="NATGW", ProtectionEnable=protected)
    asked = {"SnatTableId": table, "SnatIp": address["EipAddress"], "SnatEntryName": "out"}
    entry = life.rpc("vpc", "CreateSnatEntry", **asked, SourceVSwitchId=vswitch)["SnatEntryId"]
    life.rpc("vpc", "DescribeSnatTableEntries", SnatTableId=table)
    life.rpc("vpc", "ModifySnatEntry", **{**asked, "SnatEntryName": "other"}, SnatEntryId=entry)
    life.rpc("vpc", "DeleteSnatEntry", SnatTableId=table, SnatEntryId=entry)
    life.account.read_all("snat_entry")
    life.rpc("vpc", "UnassociateEipAddress", **allocation, InstanceId=gateway, InstanceType="Nat")
    life.account.read_all("eip")
    life.rpc("vpc", "ReleaseEipAddress", **allocation)
    life.rpc("vpc", "DeleteNatGateway", NatGatewayId=gateway)
    life.account.read_all("nat_gateway")


def _security(life: Life, vpc: str) -> str:
    life.rpc("ecs", "DescribeZones")
    life.rpc("ecs", "DescribeInstanceTypes", InstanceTypes=["ecs.gn7i-c8g1.2xlarge"], MaxResults=10)
    asked = {"SecurityGroupName": "nodes", "Description": "as created", "SecurityGroupType": "normal", "Tag": [TAG]}
    group = life.rpc("ecs", "CreateSecurityGroup", VpcId=vpc, **asked)["SecurityGroupId"]
    life.rpc("ecs", "DescribeSecurityGroups", SecurityGroupId=group)
    named = {"SecurityGroupId": group}
    rule = {"IpProtocol": "all", "PortRange": "-1/-1", "Policy": "accept", "Priority": 1, "NicType": "intranet"}
    for direction, (suffix, other) in {"ingress": ("", "Source"), "egress": ("Egress", "Dest")}.items():
        permissions = [{**rule, f"{other}CidrIp": "10.0.0.0/8", "Description": "d1"}]
        modify = f"ModifySecurityGroup{suffix}Rule"
        life.rpc("ecs", f"AuthorizeSecurityGroup{suffix}", **named, Permissions=permissions)
        life.rpc("ecs", modify, **named, **{**permissions[0], "Description": "d2"})
        life.rpc("ecs", "DescribeSecurityGroupAttribute", **named, Direction=direction)
        life.rpc("ecs", f"RevokeSecurityGroup{suffix}", **named, Permissions=permissions)
    life.rpc("ecs", "ModifySecurityGroupAttribute", **named, SecurityGroupName="other", Description="d2")
    life.rpc("ecs", "ModifySecurityGroupPolicy", **named, InnerAccessPolicy="Drop")
    tagged = {"ResourceType": "securitygroup", "ResourceId": [group]}
    life.rpc("ecs", "TagResources", **tagged, Tag=[TAG])
    life.rpc("ecs", "ListTagResources", **tagged)
    life.rpc("ecs", "UntagResources", **tagged, TagKey=["athanor:stack"])
    asked = {"DeploymentSetName": "close", "Strategy": "LowLatency", "Description": "as created"}
    together = life.rpc("ecs", "CreateDeploymentSet", **asked)["DeploymentSetId"]
    life.rpc("ecs", "DescribeDeploymentSets", DeploymentSetIds=json.dumps([together]))
    life.rpc("ecs", "ModifyDeploymentSetAttribute", DeploymentSetId=together, DeploymentSetName="other")
    life.rpc("ecs", "DeleteDeploymentSet", DeploymentSetId=together)
    _machines(life)
    return group


def _machines(life: Life) -> None:
    """Describe what nothing here creates: machines outside of pools, and disks."""
    asked = {"Tag": [TAG], "PageNumber": 1, "PageSize": 50}
    instance = {"InstanceId": "i-1", "InstanceName": "left", "InstanceType": "ecs.g7.xlarge", "Status": "Running"}
    life.account.add("instance", "i-1", {**instance, "_tags": {TAG["Key"]: TAG["Value"]}})
    life.rpc("ecs", "DescribeInstances", **asked, InstanceIds=json.dumps(["i-1"]))
    disk = {"DiskId": "d-1", "DiskName": "left", "Size": 20, "Status": "Available", "Category": "cloud_essd"}
    life.account.add("disk", "d-1", {**disk, "_tags": {TAG["Key"]: TAG["Value"]}})
    life.rpc("ecs", "DescribeDisks", **asked)
    life.account.remove("instance", "i-1")
    life.account.remove("disk", "d-1")


def _document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "1", "Statement": [statement]})


def _identity(life: Life) -> None:
    life.rpc("sts", "GetCallerIdentity")
    document, names = _document(TRUST), {"RoleName": "ci"}
    asked = {"Description": "d", "MaxSessionDuration": 3600, "Tag": json.dumps([TAG])}
    arn = life.rpc("ram", "CreateRole", **names, AssumeRolePolicyDocument=document, **asked)["Role"]["Arn"]
    life.rpc("ram", "UpdateRole", **names, NewDescription="d2", NewMaxSessionDuration=7200)
    life.rpc("ram", "GetRole", **names)
    life.rpc("sts", "AssumeRole", RoleArn=arn, RoleSessionName="test", DurationSeconds=900, Policy=_document(ALLOW))
    policy = {"PolicyName": "read"}
    life.rpc("ram", "CreatePolicy", **policy, PolicyDocument=_document(ALLOW), Description="d1")
    life.rpc("ram", "UpdatePolicyDescription", **policy, NewDescription="d2")
    version = {"PolicyDocument": _document(ALLOW), "SetAsDefault": True, "RotateStrategy": "None"}
    life.rpc("ram", "CreatePolicyVersion", **policy, **version)
    life.rpc("ram", "ListPolicyVersions", **policy, PolicyType="Custom")
    life.rpc("ram", "DeletePolicyVersion", **policy, VersionId="v1")
    life.rpc("ram", "GetPolicy", **policy, PolicyType="Custom")
    attached = {**policy, **names, "PolicyType": "Custom"}
    life.rpc("ram", "AttachPolicyToRole", **attached)
    life.rpc("ram", "ListPoliciesForRole", **names)
    life.rpc("ram", "ListEntitiesForPolicy", **policy, PolicyType="Custom")
    life.rpc("ram", "DetachPolicyFromRole", **attached)
    tagged = {"ResourceType": "role", "ResourceNames": json.dumps(["ci"])}
    life.rpc("ram", "TagResources", **tagged, Tag=json.dumps([TAG]))
    life.rpc("ram", "ListTagResources", **tagged)
    life.rpc("ram", "UntagResources", **tagged, TagKeys=json.dumps(["athanor:stack"]))
    life.rpc("ram", "DeletePolicy", **policy, CascadingDelete=True)
    life.rpc("ram", "DeleteRole", **names)


def _files(life: Life, vpc: str, vswitch: str) -> None:
    asked = {"FileSystemType": "extreme", "StorageType": "standard", "ProtocolType": "NFS", "Capacity": 100}
    made = life.rpc("nas", "CreateFileSystem", **asked, ZoneId=ZONE, Description="as created", EncryptType=0, Tag=[TAG])
    files = {"FileSystemId": made["FileSystemId"]}
    life.rpc("nas", "DescribeFileSystems", **files)
    life.rpc("nas", "ModifyFileSystem", **files, Description="d2")
    life.rpc("nas", "UpgradeFileSystem", **files, Capacity=200)
    life.rpc("nas", "DescribeFileSystems", **files)
    for operation in ("EnableRecycleBin", "UpdateRecycleBinAttribute"):
        life.rpc("nas", operation, **files, ReservedDays=7)
    life.rpc("nas", "GetRecycleBinAttribute", **files)
    for operation in ("DisableAndCleanRecycleBin", "EnableNfsAcl", "DescribeNfsAcl", "DisableNfsAcl"):
        life.rpc("nas", operation, **files)
    tagged = {"ResourceType": "filesystem", "ResourceId": [made["FileSystemId"]]}
    life.rpc("nas", "TagResources", **tagged, Tag=[TAG])
    life.rpc("nas", "ListTagResources", **tagged)
    life.rpc("nas", "UntagResources", **tagged, TagKey=["athanor:stack"])
    group = {"AccessGroupName": "nodes", "FileSystemType": "extreme"}
    life.rpc("nas", "CreateAccessGroup", **group, AccessGroupType="Vpc", Description="d1")
    life.rpc("nas", "ModifyAccessGroup", **group, Description="d2")
    rule = {"SourceCidrIp": "10.1.0.0/20", "RWAccessType": "RDWR", "UserAccessType": "no_squash", "Priority": 1}
    named = {**group, "AccessRuleId": life.rpc("nas", "CreateAccessRule", **group, **rule)["AccessRuleId"]}
    life.rpc("nas", "ModifyAccessRule", **named, **rule)
    life.rpc("nas", "DescribeAccessRules", **group)
    place = {"VpcId": vpc, "VSwitchId": vswitch, "NetworkType": "Vpc", "AccessGroupName": "nodes"}
    target = {**files, "MountTargetDomain": life.rpc("nas", "CreateMountTarget", **files, **place)["MountTargetDomain"]}
    life.rpc("nas", "DescribeMountTargets", **target)
    life.rpc("nas", "DescribeFileSystems", **files)
    life.rpc("nas", "DescribeAccessGroups", **group)
    life.rpc("nas", "ModifyMountTarget", **target, AccessGroupName="nodes", Status="Inactive")
    life.rpc("nas", "DeleteMountTarget", **target)
    life.account.read_all("mount_target")
    life.rpc("nas", "DeleteAccessRule", **named)
    life.rpc("nas", "DeleteAccessGroup", **group)
    life.rpc("nas", "DeleteFileSystem", **files)
    life.account.read_all("file_system")
    windows = {"FileSystemType": "standard", "StorageType": "Performance", "ProtocolType": "SMB"}
    shared = {"FileSystemId": life.rpc("nas", "CreateFileSystem", **windows)["FileSystemId"]}
    life.rpc("nas", "DescribeSmbAcl", **shared)
    life.rpc("nas", "DeleteFileSystem", **shared)
    life.account.read_all("file_system")


def _parallel_files(life: Life, vpc: str, vswitch: str) -> None:
    place = {"VpcId": vpc, "VSwitchId": vswitch}
    asked = {"FileSystemType": "cpfs", "ProtocolType": "cpfs", "StorageType": "advance_100", "Capacity": 3600}
    files = {"FileSystemId": life.rpc("nas", "CreateFileSystem", **asked, **place, ZoneId=ZONE)["FileSystemId"]}
    life.rpc("nas", "DescribeFileSystems", **files)
    asked = {"ProtocolType": "NFS", "ProtocolSpec": "General", "Throughput": 8000, "Description": "d1"}
    made = life.rpc("nas", "CreateProtocolService", **files, **place, **asked)
    service = {**files, "ProtocolServiceId": made["ProtocolServiceId"]}
    life.rpc("nas", "ModifyProtocolService", **service, Description="d2")
    life.rpc("nas", "DescribeProtocolService", **files, ProtocolServiceIds=made["ProtocolServiceId"])
    export = life.rpc("nas", "CreateProtocolMountTarget", **service, **place, Path="/", FsetId="", Description="d1")
    named = {**service, "ExportId": export["ExportId"]}
    life.rpc("nas", "ModifyProtocolMountTarget", **named, Description="d2")
    life.rpc("nas", "GetProtocolMountTarget", **named)
    life.rpc("nas", "DescribeProtocolMountTarget", **files)
    life.rpc("nas", "DeleteProtocolMountTarget", **named)
    life.account.read_all("export")
    life.rpc("nas", "DeleteProtocolService", **service)
    life.account.read_all("protocol_service")
    life.rpc("nas", "DeleteFileSystem", **files)
    life.account.read_all("file_system")


def _cluster(life: Life, vpc: str, vswitch: str, pods: str, group: str) -> None:
    window = {"enable": True, "maintenance_time": "2025-01-01T18:00:00Z", "duration": "3h", "weekly_period": "Saturday"}
    asked = cluster_body(
        cluster_spec="ack.standard",
        vpcid=vpc,
        vswitch_ids=[vswitch],
        pod_vswitch_ids=[pods],
        security_group_id=group,
        tags=[{"key": "athanor:stack", "value": "dev"}],
        controlplane_log_components=["apiserver"],
        audit_log_config={"enabled": True},
        maintenance_window=window,
        operation_policy={"cluster_auto_upgrade": {"enabled": False}},
        addons=[TERWAY, {"name": "metrics-server", "version": "v0.7.1"}],
        timezone="Asia/Shanghai",
        proxy_mode="ipvs",
        endpoint_public_access=True,
    )
    made = life.roa("POST", "/clusters", asked)
    life.roa("GET", f"/tasks/{made['task_id']}")
    path, newer = f"/clusters/{made['cluster_id']}", f"/api/v2/clusters/{made['cluster_id']}"
    life.roa("GET", path)
    life.roa("GET", "/api/v1/clusters", name="athanor-dev", page_number="1", page_size="50")
    life.roa("GET", f"{path}/resources")
    life.roa("GET", f"/k8s/{made['cluster_id']}/user_config", TemporaryDurationMinutes="15", PrivateIpAddress="true")
    life.roa("GET", "/api/v1/metadata/versions", Region=REGION, ClusterType="ManagedKubernetes")
    for body in ({"deletion_protection": False, "cluster_name": "other"}, {"enable_rrsa": True}):
        life.roa("PUT", newer, body)
        life.roa("GET", path)
    life.roa("POST", f"{path}/tags", [{"key": "a", "value": "b"}])
    life.roa("GET", path)
    life.roa("POST", f"{path}/migrate", {"type": "ManagedKubernetes", "spec": "ack.pro.small"})
    life.roa("GET", path)
    life.roa("PUT", f"{path}/kms", {"kms_key_id": "key-1", "disable_encryption": False})
    life.roa("GET", path)
    task = life.roa("POST", f"{newer}/upgrade", {"next_version": "1.35.7-aliyun.1", "master_only": True})["task_id"]
    life.roa("POST", f"/tasks/{task}/cancel")
    life.roa("GET", path)
    for change in ("controlplanelog", "audit_log"):
        life.roa(
            "PUT", f"{path}/{change}", {"components": ["kcm"]} if change == "controlplanelog" else {"disable": True}
        )
        life.roa("GET", path)
    life.roa("GET", f"{path}/controlplanelog")
    life.roa("GET", f"{path}/audit")
    _pools(life, path, vswitch, group)
    _addons(life, path)
    options = [{"resource_type": "SLB", "delete_mode": "delete"}]
    life.roa("DELETE", path, delete_options=json.dumps(options))
    life.account.read_all("cluster")


def _pools(life: Life, path: str, vswitch: str, group: str) -> None:
    disk = {"category": "cloud_essd", "size": 500, "performance_level": "PL1", "encrypted": "false"}
    asked = pool_body(
        "gpu",
        scaling_group={
            "vswitch_ids": [vswitch],
            "security_group_ids": [group],
            "image_type": "AliyunLinux3ContainerOptimized",
            "data_disks": [disk],
            "spot_strategy": "SpotWithPriceLimit",
            "spot_price_limit": [{"instance_type": "ecs.gn7i-c16g1.4xlarge", "price_limit": "4"}],
            # as the provider writes them
            "tags": [TAG],
        },
        kubernetes_config={
            "labels": [{"key": "athanor.dev/pool", "value": "gpu"}],
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            "cms_enabled": True,
        },
        management={"enable": True, "auto_repair": True},
        auto_scaling={"enable": True, "min_instances": 2, "max_instances": 4, "type": "gpu"},
        node_config={"kubelet_configuration": {"maxPods": 64}},
    )
    made = life.roa("POST", f"{path}/nodepools", asked)
    pool = f"{path}/nodepools/{made['nodepool_id']}"
    life.roa("GET", pool)
    life.roa("GET", f"{path}/nodepools")
    life.roa("PUT", pool, {"scaling_group": {"desired_size": 3}, "update_nodes": True})
    life.roa("GET", pool)
    life.roa("PUT", f"{pool}/node_config", {"kubelet_config": {"maxPods": 32}})
    life.roa("GET", pool)
    life.roa("POST", f"{pool}/upgrade", {"kubernetes_version": "1.35.7-aliyun.1"})
    life.roa("GET", f"{path}/nodes", nodepool_id=made["nodepool_id"])
    life.roa("DELETE", pool, force="true")


def _addons(life: Life, path: str) -> None:
    life.roa("GET", "/addons")
    life.roa("GET", "/addons/metrics-server")
    components = f"{path}/components"
    installed = {"name": "ack-node-problem-detector", "version": "v1.2.35", "config": "{}"}
    life.roa("POST", f"{components}/install", [installed])
    life.roa("GET", f"{path}/addon_instances")
    life.roa("GET", f"{path}/addon_instances/{installed['name']}")
    life.roa("POST", f"{components}/upgrade", [{"component_name": installed["name"], "next_version": "v1.2.36"}])
    life.roa("GET", f"{components}/upgradestatus", componentIds=json.dumps([installed["name"]]))
    life.roa("POST", f"{components}/{installed['name']}/config", {"config": '{"a": 1}'})
    life.roa("POST", f"{components}/uninstall", [{"name": installed["name"]}])
    life.roa("POST", f"{path.replace('clusters', 'cluster')}/autoscale/config", {"scaler_type": "goatscaler"})
