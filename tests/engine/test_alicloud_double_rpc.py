"""The real provider against the API double: each resource of ours is created, read, changed and deleted.

What the provider reads back must be what it sent: a refresh and a second `up` find nothing to change.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.api_double import faults
from tools.api_double.double import ApiDouble
from tools.api_double.faults import Fault
from tools.process import CommandError, run
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "cn-hangzhou"
NOWHERE = "http://127.0.0.1:9"
HEAD = """
import json

import pulumi
import pulumi_alicloud as alicloud

later = pulumi.Config().get_bool("later") or False
provider = alicloud.Provider("cloud", region="cn-hangzhou", account_type="Domestic")
options = pulumi.ResourceOptions(provider=provider)
tags = {"athanor:stack": "later" if later else "test", **({} if later else {"only": "first"})}
words = "changed later" if later else "made first"
"""
NETWORK = """
vpc = alicloud.vpc.Network(
    "vpc", vpc_name="athanor-test-vpc", cidr_block="10.0.0.0/8", description=words, tags=tags, opts=options
)
"""
WAY_OUT = """
nodes = alicloud.vpc.Switch(
    "nodes", vpc_id=vpc.id, cidr_block="10.0.0.0/20", zone_id="cn-hangzhou-i", vswitch_name="nodes",
    description=words, tags=tags, opts=options,
)
pods = alicloud.vpc.Switch(
    "pods", vpc_id=vpc.id, cidr_block="10.16.0.0/16", zone_id="cn-hangzhou-i", vswitch_name="pods", opts=options
)
gateway = alicloud.vpc.NatGateway(
    "gateway", vpc_id=vpc.id, vswitch_id=nodes.id, nat_type="Enhanced", payment_type="PayAsYouGo",
    nat_gateway_name="gateway-later" if later else "gateway", internet_charge_type="PayByLcu",
    description=words, tags=tags, deletion_protection=not later, opts=options,
)
address = alicloud.ecs.EipAddress(
    "address", address_name="out-later" if later else "out", bandwidth="50" if later else "100", isp="BGP",
    internet_charge_type="PayByTraffic", payment_type="PayAsYouGo", description=words, tags=tags, opts=options,
)
binding = alicloud.ecs.EipAssociation(
    "binding", allocation_id=address.id, instance_id=gateway.id, instance_type="Nat", opts=options
)
for name, vswitch in (("nodes", nodes), ("pods", pods)):
    alicloud.vpc.SnatEntry(
        f"{name}-out", snat_table_id=gateway.snat_table_ids, snat_ip=address.ip_address, source_vswitch_id=vswitch.id,
        snat_entry_name=f"{name}-later" if later else name,
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[binding]),
    )
"""
SECURITY = """
group = alicloud.ecs.SecurityGroup(
    "group", vpc_id=vpc.id, security_group_name="nodes-later" if later else "nodes", security_group_type="normal",
    inner_access_policy="Drop" if later else "Accept", description=words, tags=tags, opts=options,
)
rule = {"ip_protocol": "all", "port_range": "-1/-1", "policy": "accept", "priority": 1, "nic_type": "intranet"}
alicloud.ecs.SecurityGroupRule(
    "in-group", type="ingress", security_group_id=group.id, source_security_group_id=group.id, description=words,
    opts=options, **rule,
)
alicloud.ecs.SecurityGroupRule(
    "from-vpc", type="ingress", security_group_id=group.id, ip_protocol="tcp", port_range="443/443",
    cidr_ip="10.0.0.0/8", policy="accept", priority=2, nic_type="intranet", opts=options,
)
alicloud.ecs.SecurityGroupRule(
    "out", type="egress", security_group_id=group.id, cidr_ip="0.0.0.0/0", opts=options, **rule
)
alicloud.ecs.EcsDeploymentSet(
    "close", deployment_set_name="close-later" if later else "close", strategy="LowLatency", description=words,
    opts=options,
)
"""
IDENTITY = """
trust = {
    "Version": "1",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Federated": ["acs:ram::1012345678901234:oidc-provider/ack-rrsa-c1"]},
            "Condition": {"StringEquals": {"oidc:aud": "sts.aliyuncs.com"}},
        }
    ],
}
bucket = "later" if later else "first"
statement = {"Effect": "Allow", "Action": ["oss:Get*"], "Resource": [f"acs:oss:*:*:{bucket}"]}
policy = {"Version": "1", "Statement": [statement]}
role = alicloud.ram.Role(
    "role", role_name="athanor-test-reader", assume_role_policy_document=json.dumps(trust), description=words,
    max_session_duration=7200 if later else 3600, tags=tags, opts=options,
)
read = alicloud.ram.Policy(
    "read", policy_name="athanor-test-read", policy_document=json.dumps(policy), description=words,
    rotate_strategy="DeleteOldestNonDefaultVersionWhenLimitExceeded", opts=options,
)
alicloud.ram.RolePolicyAttachment(
    "own", role_name=role.role_name, policy_name=read.policy_name, policy_type=read.type, opts=options
)
alicloud.ram.RolePolicyAttachment(
    "system", role_name=role.role_name, policy_name="AliyunOSSReadOnlyAccess", policy_type="System", opts=options
)
"""
STORAGE = """
kinds = {"standard": ("Performance", None), "extreme": ("advance", 200 if later else 100)}
for kind, (storage, capacity) in kinds.items():
    files = alicloud.nas.FileSystem(
        kind, file_system_type=kind, protocol_type="NFS", storage_type=storage, capacity=capacity,
        zone_id="cn-hangzhou-i", description=words, tags=tags, opts=options,
    )
    group = alicloud.nas.AccessGroup(
        kind, access_group_name=f"athanor-test-{kind}", access_group_type="Vpc", file_system_type=kind,
        description=words, opts=options,
    )
    alicloud.nas.AccessRule(
        kind, access_group_name=group.access_group_name, file_system_type=kind, source_cidr_ip="10.0.0.0/20",
        rw_access_type="RDONLY" if later else "RDWR", user_access_type="no_squash", priority=2 if later else 1,
        opts=options,
    )
    alicloud.nas.MountTarget(
        kind, file_system_id=files.id, access_group_name=group.access_group_name, network_type="Vpc",
        vpc_id=vpc.id, vswitch_id=nodes.id, opts=options,
    )
parallel = alicloud.nas.FileSystem(
    "cpfs", file_system_type="cpfs", protocol_type="cpfs", storage_type="advance_100", capacity=7200 if later else 3600,
    zone_id="cn-hangzhou-i", vpc_id=vpc.id, vswitch_id=nodes.id, description=words, opts=options,
)
service = alicloud.nas.ProtocolService(
    "nfs", file_system_id=parallel.id, protocol_type="NFS", protocol_spec="General", vpc_id=vpc.id,
    vswitch_id=nodes.id, description=words, opts=options,
)
alicloud.nas.ProtocolMountTarget(
    "nfs", file_system_id=parallel.id, protocol_service_id=service.protocol_service_id, path="/", vpc_id=vpc.id,
    vswitch_id=nodes.id, access_group_name="DEFAULT_VPC_GROUP_NAME", description=words, opts=options,
)
"""


@dataclass(frozen=True)
class Stack:
    """A Pulumi project whose provider speaks to a double."""

    pulumi: Path
    folder: Path
    double: ApiDouble

    def run(self, *words: str) -> str:
        own_path = [str(Path(sys.executable).parent), str(self.pulumi.parent), os.environ["PATH"]]
        environment = {
            "PATH": os.pathsep.join(own_path),
            "PULUMI_HOME": str(pulumi_home()),
            "PULUMI_BACKEND_URL": (self.folder / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "of this test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # whatever is not for the double ends here
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
            **self.double.environment(),
        }
        return run([self.pulumi, *words, "--non-interactive"], cwd=self.folder, env=environment)

    def write(self, *parts: str) -> None:
        (self.folder / "__main__.py").write_text("".join((HEAD, *parts)), encoding="utf-8")

    def up(self) -> None:
        self.run("up", "--yes", "--skip-preview")

    def change(self) -> None:
        self.run("config", "set", "later", "true")
        self.up()

    def assert_unchanged(self) -> None:
        """What is read back is what is wanted, both by the engine's state and by the cloud's."""
        self.run("up", "--yes", "--skip-preview", "--refresh", "--expect-no-changes")

    def destroy(self) -> None:
        self.run("destroy", "--yes", "--skip-preview")

    def outputs(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the state's outputs of the resources of a type, by name."""
        resources = json.loads(self.run("stack", "export"))["deployment"]["resources"]
        return {r["urn"].rpartition("::")[2]: r.get("outputs", {}) for r in resources if r["type"] == kind}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    programs = ensure(["pulumi", "pulumi-resource-alicloud"])
    folder = tmp_path / "project"
    (folder / "state").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: cloud\nruntime: python\n", encoding="utf-8")
    with ApiDouble(tmp_path / "double", region=REGION) as double:
        stack = Stack(programs["pulumi"], folder, double)
        stack.run("stack", "init", "test")
        yield stack
        assert double.mistakes() == []


EXPECTED_REFUSALS = {
    # The provider asks for what it deleted until it is gone, and for the SMB access list of every file system.
    ("DescribeVpcAttribute", "InvalidVpcID.NotFound"),
    ("DescribeVSwitchAttributes", "InvalidVswitchID.NotFound"),
    ("DescribeFileSystems", "InvalidFileSystem.NotFound"),
    ("GetProtocolMountTarget", "Resource.NotFound"),
    ("DescribeSmbAcl", "InvalidProtocolType.NotSupported"),
}


def test_every_resource_is_made_read_changed_and_deleted(stack: Stack) -> None:
    stack.write(NETWORK, WAY_OUT, SECURITY, IDENTITY, STORAGE)
    stack.up()
    made = stack.double.inventory()
    assert {kind: len(found) for kind, found in made.items()} == {
        "vpc": 1,
        "vswitch": 2,
        "nat_gateway": 1,
        "eip": 1,
        "snat_entry": 2,
        "security_group": 1,
        "deployment_set": 1,
        "role": 1,
        "policy": 1,
        "policy_attachment": 2,
        "file_system": 3,
        "access_group": 2,
        "access_rule": 2,
        "mount_target": 2,
        "protocol_service": 1,
        "export": 1,
    }
    stack.assert_unchanged()
    stack.change()
    # in place: nothing was made anew
    assert stack.double.inventory() == made
    stack.assert_unchanged()
    stack.destroy()
    assert stack.double.inventory() == {}
    assert stack.double.unknown_operations() == []
    refused = {(call.operation, call.code) for call in stack.double.log.calls() if call.code}
    assert refused <= EXPECTED_REFUSALS


def test_passing_failures_double_nothing(stack: Stack) -> None:
    stack.double.faults.add(
        faults.throttling("CreateVpc"),
        Fault(operation="CreateVpc", effect="lose_answer"),
        faults.server_error("DescribeVpcAttribute"),
        faults.server_error("DescribeRouteTableList", status=500),
    )
    stack.write(NETWORK)
    stack.up()
    assert stack.double.faults.waiting() == []
    assert len(stack.double.inventory()["vpc"]) == 1
    assert [call.code for call in stack.double.log.calls("CreateVpc")] == ["Throttling.User", "", ""]
    stack.assert_unchanged()


def test_a_quota_is_told_and_nothing_is_left_behind(stack: Stack) -> None:
    stack.double.faults.add(faults.quota_exceeded("CreateVpc", "Vpc", times=9))
    stack.write(NETWORK)
    with pytest.raises(CommandError, match=r"QuotaExceeded\.Vpc"):
        stack.up()
    assert stack.double.inventory() == {}
    stack.double.faults.clear()
    stack.up()
    assert len(stack.double.inventory()["vpc"]) == 1


def test_what_is_deleted_behind_the_engines_back_is_found_missing(stack: Stack) -> None:
    stack.write(NETWORK)
    stack.up()
    with stack.double.account.lock:
        (vpc,) = stack.double.account.all("vpc")
        stack.double.account.remove("vpc", vpc)
    stack.run("refresh", "--yes", "--skip-preview")
    assert stack.outputs("alicloud:vpc/network:Network") == {}
    stack.up()
    assert stack.double.inventory()["vpc"] != [vpc]


def test_it_goes_on_with_a_double_that_was_restarted(stack: Stack) -> None:
    stack.write(NETWORK)
    stack.up()
    port = int(stack.double.address.split(":")[1])
    stack.double.stop()
    with ApiDouble(stack.folder.parent / "double", region=REGION, port=port) as second:
        again = Stack(stack.pulumi, stack.folder, second)
        again.assert_unchanged()
        again.destroy()
        assert second.inventory() == {}
