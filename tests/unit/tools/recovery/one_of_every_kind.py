"""An account that holds one resource of every kind, made as the provider makes them."""

import json
from typing import Any

from athanor.account.lookup import LOOKUPS
from tests.api_double.double import ApiDouble
from tests.unit.api_double.api_client import client_of
from tests.unit.api_double.cs.service import TERWAY, cluster_body, pool_body

REGION, ZONE = "cn-hangzhou", "cn-hangzhou-i"
OWNER = {"athanor:project": "athanor", "athanor:stack": "dev"}
ACCESS = {"IpProtocol": "all", "PortRange": "-1/-1", "NicType": "intranet", "Policy": "accept", "Priority": 1}
ANYWHERE = "0.0.0.0/0"

Made = dict[str, tuple[dict[str, Any], str]]
"""By type token: what the program asked for, as the state holds it, and the id under which the provider imports it."""


def one_of_every_kind(double: ApiDouble) -> Made:
    """Fill an account."""
    maker = _Maker(double)
    maker.network()
    maker.security()
    maker.roles()
    maker.cluster()
    maker.nas()
    maker.cpfs()
    return maker.made


class _Maker:
    def __init__(self, double: ApiDouble) -> None:
        self.made: Made = {}
        self._double = double
        self._client = client_of(double)

    def _rpc(self, product: str, operation: str, **parameters: object) -> dict[str, Any]:
        answer = self._client.rpc(product, operation, **parameters)
        self._settle()
        return answer

    def _settle(self) -> None:
        """End every passing state."""
        with self._double.account.lock:
            for kind in self._double.inventory():
                self._double.account.read_all(kind)

    def _add(self, kind: str, identifier: str, **inputs: object) -> str:
        self.made[next(token for token in LOOKUPS if token.endswith(f":{kind}"))] = (inputs, identifier)
        return identifier

    def network(self) -> None:
        tags = [{"Key": key, "Value": value} for key, value in OWNER.items()]
        vpc = self._rpc("vpc", "CreateVpc", CidrBlock="10.64.0.0/12", VpcName="athanor-dev-vpc", Tag=tags)["VpcId"]
        self.vpc = self._add("Network", vpc, vpcName="athanor-dev-vpc", tags=OWNER)
        self.pods = self._vswitch("athanor-dev-pods-i", "10.65.0.0/18")
        self.nodes = self._vswitch("athanor-dev-nodes-i", "10.64.0.0/20")
        self._add("Switch", self.nodes, vpcId=vpc, vswitchName="athanor-dev-nodes-i", tags=OWNER)
        name = "athanor-dev-nat"
        nat = self._rpc("vpc", "CreateNatGateway", VpcId=vpc, VSwitchId=self.nodes, Name=name, NatType="Enhanced")
        gateway, table = nat["NatGatewayId"], nat["SnatTableIds"]["SnatTableId"][0]
        self._add("NatGateway", gateway, vpcId=vpc, natGatewayName=name, tags=OWNER)
        eip = self._rpc("vpc", "AllocateEipAddress", Name=name, Bandwidth=5)
        address = self._add("EipAddress", eip["AllocationId"], addressName=name, tags=OWNER)
        self._rpc("vpc", "TagResources", ResourceType="EIP", ResourceId=[address], Tag=tags)
        self._rpc("vpc", "AssociateEipAddress", AllocationId=address, InstanceId=gateway, InstanceType="Nat")
        self._add("EipAssociation", f"{address}:{gateway}", allocationId=address, instanceId=gateway)
        entry = {"SnatTableId": table, "SnatEntryName": "athanor-dev-snat-nodes-i"}
        made = self._rpc("vpc", "CreateSnatEntry", SnatIp=eip["EipAddress"], SourceVSwitchId=self.nodes, **entry)
        inputs = {"snatTableId": table, "snatEntryName": "athanor-dev-snat-nodes-i"}
        self._add("SnatEntry", f"{table}:{made['SnatEntryId']}", **inputs)

    def _vswitch(self, name: str, block: str) -> str:
        asked = {"VpcId": self.vpc, "VSwitchName": name, "CidrBlock": block, "ZoneId": ZONE}
        return self._rpc("vpc", "CreateVSwitch", **asked)["VSwitchId"]

    def security(self) -> None:
        asked = {"VpcId": self.vpc, "SecurityGroupName": "athanor-dev-nodes", "SecurityGroupType": "enterprise"}
        self.group = group = self._rpc("ecs", "CreateSecurityGroup", **asked)["SecurityGroupId"]
        self._add("SecurityGroup", group, vpcId=self.vpc, securityGroupName="athanor-dev-nodes", tags=OWNER)
        permissions = [{**ACCESS, "DestCidrIp": ANYWHERE}]
        self._rpc("ecs", "AuthorizeSecurityGroupEgress", SecurityGroupId=group, Permissions=permissions)
        rule = {name[0].lower() + name[1:]: value for name, value in ACCESS.items()}
        identifier = f"{group}:egress:all:-1/-1:intranet:{ANYWHERE}:accept:1"
        self._add("SecurityGroupRule", identifier, securityGroupId=group, type="egress", cidrIp=ANYWHERE, **rule)
        made = self._rpc("ecs", "CreateDeploymentSet", DeploymentSetName="athanor-dev-a10", Strategy="LowLatency")
        self._add("EcsDeploymentSet", made["DeploymentSetId"], deploymentSetName="athanor-dev-a10")

    def roles(self) -> None:
        name = "athanor-dev-oss"
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": ["ecs.aliyuncs.com"]}}
        self._rpc("ram", "CreateRole", RoleName=name, AssumeRolePolicyDocument=_document(trust))
        self._add("Role", name, roleName=name)
        allow = {"Effect": "Allow", "Action": "oss:GetObject", "Resource": "*"}
        self._rpc("ram", "CreatePolicy", PolicyName=name, PolicyDocument=_document(allow))
        self._add("Policy", name, policyName=name)
        self._rpc("ram", "AttachPolicyToRole", PolicyName=name, PolicyType="Custom", RoleName=name)
        inputs = {"policyName": name, "policyType": "Custom", "roleName": name}
        self._add("RolePolicyAttachment", f"role:{name}:Custom:{name}", **inputs)

    def cluster(self) -> None:
        name = "athanor-dev-cluster"
        asked = cluster_body(
            name=name,
            vpcid=self.vpc,
            vswitch_ids=[self.nodes],
            pod_vswitch_ids=[self.pods],
            security_group_id=self.group,
            tags=[{"key": key, "value": value} for key, value in OWNER.items()],
        )
        cluster = self._client.roa("POST", "/clusters", asked)["cluster_id"]
        self._settle()
        self._add("ManagedKubernetes", cluster, name=name, tags=OWNER)
        pool_asked = pool_body("athanor-dev-a10", scaling_group={"vswitch_ids": [self.nodes]})
        pool = self._client.roa("POST", f"/clusters/{cluster}/nodepools", pool_asked)["nodepool_id"]
        self._settle()
        self._add("NodePool", f"{cluster}:{pool}", clusterId=cluster, nodePoolName="athanor-dev-a10")
        self._add("KubernetesAddon", f"{cluster}:{TERWAY['name']}", clusterId=cluster, name=TERWAY["name"])

    def nas(self) -> None:
        name = "athanor-dev-nas"
        asked = {"FileSystemType": "standard", "ProtocolType": "NFS", "StorageType": "Performance", "ZoneId": ZONE}
        file_system = self._rpc("nas", "CreateFileSystem", Description=name, **asked)["FileSystemId"]
        self._add("FileSystem", file_system, fileSystemType="standard", description=name, tags=OWNER)
        clients = {"AccessGroupName": name, "FileSystemType": "standard"}
        inputs = {"accessGroupName": name, "fileSystemType": "standard"}
        self._rpc("nas", "CreateAccessGroup", AccessGroupType="Vpc", **clients)
        self._add("AccessGroup", f"{name}:standard", **inputs)
        rule = self._rpc("nas", "CreateAccessRule", SourceCidrIp="10.64.0.0/12", **clients)["AccessRuleId"]
        self._add("AccessRule", f"{name}:{rule}", sourceCidrIp="10.64.0.0/12", **inputs)
        place = {"NetworkType": "Vpc", "VpcId": self.vpc, "VSwitchId": self.nodes}
        target = self._rpc("nas", "CreateMountTarget", FileSystemId=file_system, AccessGroupName=name, **place)
        identifier = f"{file_system}:{target['MountTargetDomain']}"
        self._add("MountTarget", identifier, fileSystemId=file_system, vswitchId=self.nodes, accessGroupName=name)

    def cpfs(self) -> None:
        place = {"VpcId": self.vpc, "VSwitchId": self.nodes}
        asked = {"FileSystemType": "cpfs", "ProtocolType": "cpfs", "StorageType": "advance_200", "Capacity": 3600}
        files = self._rpc("nas", "CreateFileSystem", ZoneId=ZONE, **asked, **place)["FileSystemId"]
        asked = {"FileSystemId": files, "ProtocolType": "NFS", "ProtocolSpec": "General"}
        service = self._rpc("nas", "CreateProtocolService", **asked, **place)["ProtocolServiceId"]
        self._add("ProtocolService", f"{files}:{service}", fileSystemId=files, protocolType="NFS")
        asked = {"FileSystemId": files, "ProtocolServiceId": service, "Path": "/"}
        export = self._rpc("nas", "CreateProtocolMountTarget", **asked, **place)["ExportId"]
        identifier = f"{files}:{service}:{export}"
        self._add("ProtocolMountTarget", identifier, fileSystemId=files, protocolServiceId=service, path="/")


def _document(statement: dict[str, object]) -> str:
    return json.dumps({"Version": "1", "Statement": [statement]})
