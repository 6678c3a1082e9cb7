"""The real provider against the API double: each resource of ours is created, read, changed and deleted.

What the provider reads back must be what it sent: a refresh and a second `up` find nothing to change. The tests lead
one stack through its life, in their order.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_double import faults
from tests.api_double.cs import machines
from tests.api_double.double import ApiDouble
from tests.api_double.faults import Fault
from tests.fixtures.cloud_identities import previewer_credentials
from tests.fixtures.engine_project import EngineProject
from tests.unit.api_double.cs.service import KUBECONFIG
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
from tests.engine.alicloud_program import declare

declare()
"""
MADE = {
    "vpc": 1,
    "vswitch": 4,
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
    "cluster": 1,
    "node_pool": 2,
}
"""What the test's own program is, in the account."""
EXPECTED_REFUSALS = {
    # The provider asks for what it deleted until it is gone, for an add-on before it installs it, and for the SMB
    # access list of every file system.
    ("DescribeVpcAttribute", "InvalidVpcID.NotFound"),
    ("DescribeVSwitchAttributes", "InvalidVswitchID.NotFound"),
    ("DescribeFileSystems", "InvalidFileSystem.NotFound"),
    ("GetProtocolMountTarget", "Resource.NotFound"),
    ("DescribeClusterDetail", "ErrorClusterNotFound"),
    ("GetClusterAddonInstance", "AddonNotFound"),
    ("DescribeSmbAcl", "InvalidProtocolType.NotSupported"),
}


@dataclass
class Cloud:
    """A stack, and the double that its provider speaks to."""

    project: EngineProject
    folder: Path
    """Of the double."""
    double: ApiDouble

    def want(self, declared: str) -> None:
        (self.project.folder / "wanted.json").write_text(json.dumps(declared), encoding="utf-8")

    def assert_unchanged(self) -> None:
        """What is read back is what is wanted, both by the engine's state and by the cloud's; reading is enough."""
        previewer = self.project.with_variables(**previewer_credentials(self.double))
        previewer.run("refresh", "--yes", "--expect-no-changes")
        previewer.preview("--expect-no-changes")

    def assert_sound(self) -> None:
        assert self.double.mistakes() == []
        assert self.double.unknown_operations() == []
        assert self.double.gate.refused() == []

    def restart(self) -> None:
        """Continue with another double on the same folder and port."""
        self.assert_sound()
        port = int(self.double.address.split(":")[1])
        self.double.stop()
        self.double = ApiDouble(self.folder, kubeconfig=KUBECONFIG, port=port)
        self.double.start()

    def refused(self, *, since: int = 0) -> set[tuple[str, str]]:
        """Return what was refused, after so many calls: operations and codes."""
        return {(call.operation, call.code) for call in self.double.log.calls(since=since) if call.code}

    def all(self, kind: str) -> list[dict[str, Any]]:
        with self.double.account.lock:
            return list(self.double.account.all(kind).values())

    def pool(self, name: str) -> dict[str, Any]:
        [match] = [pool for pool in self.all("node_pool") if pool["nodepool_info"]["name"] == name]
        return match

    def sizes(self) -> dict[str, int]:
        """Return how many nodes each pool has."""
        sizes = [(pool["nodepool_info"]["name"], len(pool["_nodes"])) for pool in self.all("node_pool")]
        assert len(dict(sizes)) == len(sizes)
        return dict(sizes)

    def addon(self, name: str) -> dict[str, Any]:
        return next(addon for addon in self.all("addon") if addon["name"] == name)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("double")
    double = ApiDouble(folder, kubeconfig=KUBECONFIG)
    double.start()
    project = EngineProject.create(tmp_path_factory.mktemp("project"), PROGRAM, "alicloud", double.environment())
    cloud = Cloud(project, folder, double)
    try:
        yield cloud
        cloud.assert_sound()
    finally:
        cloud.double.stop()


def test_a_quota_is_reported_and_nothing_is_left_behind(cloud: Cloud) -> None:
    cloud.double.faults.add(faults.quota_exceeded("CreateVpc", "Vpc", times=9))
    cloud.want("the network")
    with pytest.raises(CommandError, match=r"QuotaExceeded\.Vpc"):
        cloud.project.up()
    assert cloud.double.inventory() == {}
    cloud.double.faults.clear()


def test_passing_failures_double_nothing(cloud: Cloud) -> None:
    before = len(cloud.double.log.calls("CreateVpc"))
    cloud.double.faults.add(
        faults.throttling("CreateVpc"),
        Fault(operation="CreateVpc", effect="lose_answer"),
        faults.server_error("DescribeVpcAttribute"),
        faults.server_error("DescribeRouteTableList", status=500),
    )
    cloud.project.up()
    assert cloud.double.faults.waiting() == []
    assert len(cloud.double.inventory()["vpc"]) == 1
    assert [call.code for call in cloud.double.log.calls("CreateVpc")[before:]] == ["Throttling.User", "", ""]


def test_everything_is_created_and_what_was_deleted_behind_the_engines_back_too(cloud: Cloud) -> None:
    since = len(cloud.double.log.calls())
    with cloud.double.account.lock:
        [vpc] = cloud.double.account.all("vpc")
        cloud.double.account.remove("vpc", vpc)
    cloud.want("everything")
    cloud.project.up("--refresh")

    made = cloud.double.inventory()
    assert {kind: len(objects) for kind, objects in made.items() if kind in MADE} == MADE
    assert made["vpc"] != [vpc]
    assert cloud.refused(since=since) <= EXPECTED_REFUSALS
    outputs = json.loads(cloud.project.run("stack", "output", "--json", "--show-secrets"))
    [cluster] = cloud.all("cluster")
    assert (cluster["cluster_id"], cluster["state"]) == (outputs["cluster"], "running")
    # A name that is not given is made of the resource's, as the vendor's provider makes it.
    assert re.fullmatch(r"cluster-[0-9a-f]{7}", cluster["name"])
    assert outputs["issuer"] == cluster["rrsa_config"]["issuer"]
    assert outputs["kubeconfig"] == KUBECONFIG
    assert cloud.sizes() == {"system": 2, "gpu": 1}
    assert cloud.pool("gpu")["_nodes"][0]["labels"] == {"athanor.dev/pool": "gpu"}
    assert cloud.pool("gpu")["node_config"]["kubelet_configuration"]["maxPods"] == 64
    assert json.loads(cloud.addon("ack-node-problem-detector")["config"]) == {"gpu": {"isolation": True}}
    assert cloud.addon("goatscaler")["state"] == "active"
    assert "nginx-ingress-controller" not in {addon["name"] for addon in cloud.all("addon")}


def test_nothing_has_changed_then_for_a_double_that_was_restarted(cloud: Cloud) -> None:
    cloud.restart()
    cloud.assert_unchanged()


def test_a_change_is_made_in_place_when_what_was_sold_out_can_be_had(cloud: Cloud) -> None:
    before = cloud.double.inventory()
    machines.sell_out(cloud.double.account, "ecs.gn8is-8x.32xlarge", "ecs.gn7i-c16g1.4xlarge")
    cloud.want("everything, later")
    with pytest.raises(CommandError, match=r"OperationDenied\.NoStock"):
        cloud.project.up("--continue-on-error")
    machines.restock(cloud.double.account)
    cloud.project.up()

    [cluster] = cloud.all("cluster")
    assert (cluster["state"], cluster["current_version"]) == ("running", "1.35.7-aliyun.1")
    # The control plane alone: jobs run on the nodes.
    assert cloud.pool("system")["_kubelet_version"] == "1.34.10-aliyun.1"
    assert {"key": "athanor:stack", "value": "later"} in cluster["tags"]
    # the provider has the host of some calls written into its source
    assert cloud.double.gate.caught() == ["cs.aliyuncs.com"]
    assert cloud.sizes() == {"system": 3, "gpu": 2, "spare": 1}
    assert {node["labels"]["team"] for node in cloud.pool("gpu")["_nodes"]} == {"research"}
    assert cloud.addon("metrics-server")["version"] == "v0.7.2"
    assert json.loads(cloud.addon("ack-node-problem-detector")["config"]) == {"gpu": {"isolation": False}}
    # in place: nothing was recreated
    after = cloud.double.inventory()
    assert {kind: after[kind] for kind in MADE if kind != "node_pool"} == {
        kind: before[kind] for kind in MADE if kind != "node_pool"
    }
    assert set(before["node_pool"]) < set(after["node_pool"])
    cloud.assert_unchanged()


def test_destroy_leaves_an_empty_account(cloud: Cloud) -> None:
    cloud.project.run("destroy", "--yes", "--skip-preview")
    assert cloud.double.inventory() == {}
    assert cloud.refused() <= EXPECTED_REFUSALS
