"""The real provider makes, changes and deletes clusters, node pools and add-ons in the API double."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.api_double.cs.service import KUBECONFIG
from tools.api_double.cs import machines
from tools.api_double.double import ApiDouble
from tools.process import CommandError, run
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import json
import pathlib

import pulumi
import pulumi_alicloud as alicloud

wanted = json.loads(pathlib.Path("wanted.json").read_text())
provider = alicloud.Provider("double", region="cn-hangzhou", account_type="Domestic")
options = pulumi.ResourceOptions(provider=provider)
tags = {"athanor:stack": "test"}

vpc = alicloud.vpc.Network("vpc", vpc_name="test-vpc", cidr_block="10.64.0.0/12", opts=options)


def vswitch(name, block, zone):
    return alicloud.vpc.Switch(
        name, vswitch_name=name, vpc_id=vpc.id, cidr_block=block, zone_id=f"cn-hangzhou-{zone}", opts=options
    )


nodes = [vswitch("node-i", "10.64.0.0/20", "i"), vswitch("node-j", "10.64.16.0/20", "j")]
pods = [vswitch("pod-i", "10.65.0.0/18", "i"), vswitch("pod-j", "10.65.64.0/18", "j")]
group = alicloud.ecs.SecurityGroup("group", vpc_id=vpc.id, security_group_name="test", opts=options)
cluster = alicloud.cs.ManagedKubernetes(
    "cluster",
    name="test-cluster",
    cluster_spec="ack.pro.small",
    version=wanted["version"],
    vswitch_ids=[one.id for one in nodes],
    pod_vswitch_ids=[one.id for one in pods],
    security_group_id=group.id,
    service_cidr="172.21.0.0/20",
    new_nat_gateway=False,
    slb_internet_enabled=False,
    enable_rrsa=True,
    skip_set_certificate_authority=True,
    deletion_protection=False,
    control_plane_log_components=["apiserver", "kcm"],
    control_plane_log_ttl="30",
    audit_log_config={"enabled": True},
    maintenance_window={
        "enable": True,
        "maintenance_time": "2025-01-01T18:00:00.000+00:00",
        "duration": "3h",
        "weekly_period": "Saturday",
    },
    operation_policy={"cluster_auto_upgrade": {"enabled": False}},
    delete_options=[
        {"resource_type": kind, "delete_mode": "delete"}
        for kind in ("SLB", "ALB", "SLS_Data", "SLS_ControlPlane", "PrivateZone")
    ],
    addons=[
        {"name": "terway-eniip", "config": '{"ENITrunking":"true","NetworkPolicy":"true"}'},
        {"name": "metrics-server", "version": "v0.7.1"},
        {"name": "nginx-ingress-controller", "disabled": True},
    ],
    tags=tags,
    opts=options,
)
common = {
    "cluster_id": cluster.id,
    "vswitch_ids": [one.id for one in nodes],
    "security_group_ids": [group.id],
    "system_disk_category": "cloud_essd",
    "system_disk_size": 120,
    "image_type": "AliyunLinux3",
    "install_cloud_monitor": True,
    "tags": tags,
}
system = alicloud.cs.NodePool(
    "system",
    node_pool_name="system",
    instance_types=["ecs.g7.xlarge"],
    desired_size=wanted["system_size"],
    labels=[{"key": "athanor.dev/pool", "value": "system"}],
    management={"enable": True, "auto_repair": True, "auto_upgrade": False, "auto_vul_fix": False},
    opts=options,
    **common,
)
gpu = alicloud.cs.NodePool(
    "gpu",
    node_pool_name="gpu",
    instance_types=["ecs.gn8is-8x.32xlarge"],
    scaling_config={"enable": True, "min_size": wanted["gpu_min"], "max_size": 4, "type": "gpu"},
    multi_az_policy="BALANCE",
    spot_strategy="SpotWithPriceLimit",
    spot_price_limits=[{"instance_type": "ecs.gn8is-8x.32xlarge", "price_limit": "40.5"}],
    on_demand_base_capacity="1",
    on_demand_percentage_above_base_capacity="0",
    data_disks=[
        {"category": "cloud_essd", "size": 500, "performance_level": "PL1", "encrypted": "false", "auto_format": "true"}
    ],
    labels=[{"key": key, "value": value} for key, value in sorted(wanted["gpu_labels"].items())],
    taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    kubelet_configuration={"max_pods": "64", "topology_manager_policy": "single-numa-node"},
    update_nodes=True,
    # the autoscaler's own number of nodes is no change of ours
    opts=pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(ignore_changes=["desiredSize"])),
    **common,
)
if wanted["spare"]:
    alicloud.cs.NodePool(
        "spare",
        node_pool_name="spare",
        instance_types=["ecs.gn7i-c16g1.4xlarge"],
        desired_size="1",
        labels=[{"key": "athanor.dev/pool", "value": "spare"}],
        opts=options,
        **common,
    )
metrics = alicloud.cs.KubernetesAddon(
    "metrics", cluster_id=cluster.id, name="metrics-server", version=wanted["metrics_version"], opts=options
)
detector = alicloud.cs.KubernetesAddon(
    "detector",
    cluster_id=cluster.id,
    name="ack-node-problem-detector",
    version="1.2.35",
    config=json.dumps(wanted["detector"], sort_keys=True, separators=(",", ":")),
    opts=pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[system])),
)
alicloud.cs.AutoscalingConfig(
    "scaling", cluster_id=cluster.id, scaler_type="goatscaler", scan_interval="30s", opts=options
)
credential = alicloud.cs.get_cluster_credential_output(
    cluster_id=cluster.id, opts=pulumi.InvokeOutputOptions(provider=provider)
)
pulumi.export("cluster", cluster.id)
pulumi.export("issuer", cluster.rrsa_metadata.rrsa_oidc_issuer_url)
pulumi.export("kubeconfig", pulumi.Output.secret(credential.kube_config))
"""
WANTED: dict[str, Any] = {
    "version": "1.34.1-aliyun.1",
    "system_size": "2",
    "gpu_min": 1,
    "gpu_labels": {"athanor.dev/pool": "gpu"},
    "spare": False,
    "metrics_version": "v0.7.1",
    "detector": {"gpu": {"isolation": True}},
}


@dataclass(frozen=True)
class Stack:
    """A stack whose provider speaks to a double."""

    program: Path
    folder: Path
    double: ApiDouble

    def pulumi(self, *words: str) -> str:
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(self.program.parent), os.environ["PATH"]]),
            "PULUMI_HOME": str(pulumi_home()),
            "PULUMI_BACKEND_URL": (self.folder / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "of this test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            **self.double.environment(),
        }
        return run([self.program, *words, "--non-interactive"], cwd=self.folder, env=environment, timeout_seconds=500)

    def want(self, **changed: Any) -> None:
        (self.folder / "wanted.json").write_text(json.dumps({**self.wanted, **changed}), encoding="utf-8")

    @property
    def wanted(self) -> dict[str, Any]:
        return json.loads((self.folder / "wanted.json").read_text(encoding="utf-8"))

    def steps(self) -> dict[str, str]:
        """Return what an update would do, by resource, of what is not left as it is."""
        steps = json.loads(self.pulumi("preview", "--json"))["steps"]
        return {step["urn"].rpartition("::")[2]: step["op"] for step in steps if step["op"] != "same"}

    def pool(self, name: str) -> dict[str, Any]:
        (found,) = (
            pool for pool in self.double.account.all("node_pool").values() if pool["nodepool_info"]["name"] == name
        )
        return found

    def sizes(self) -> dict[str, int]:
        """Return how many nodes each pool has."""
        sizes = [
            (pool["nodepool_info"]["name"], len(pool["_nodes"]))
            for pool in self.double.account.all("node_pool").values()
        ]
        assert len(dict(sizes)) == len(sizes)
        return dict(sizes)

    def addon(self, name: str) -> dict[str, Any]:
        return next(addon for addon in self.double.account.all("addon").values() if addon["name"] == name)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return the stack of this module, which its tests lead through its life from `up` to `destroy`."""
    program = ensure(["pulumi", "pulumi-resource-alicloud"])["pulumi"]
    folder = tmp_path_factory.mktemp("stack")
    (folder / "Pulumi.yaml").write_text("name: double\nruntime: python\n", encoding="utf-8")
    (folder / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "wanted.json").write_text(json.dumps(WANTED), encoding="utf-8")
    (folder / "state").mkdir()
    with ApiDouble(tmp_path_factory.mktemp("double"), kubeconfig=KUBECONFIG) as double:
        stack = Stack(program, folder, double)
        stack.pulumi("stack", "init", "test")
        yield stack
        assert double.mistakes() == []
        assert double.unknown_operations() == []


def test_up_makes_the_cluster(stack: Stack) -> None:
    stack.pulumi("up", "--yes", "--skip-preview")

    outputs = json.loads(stack.pulumi("stack", "output", "--json", "--show-secrets"))
    cluster = stack.double.account.all("cluster")[outputs["cluster"]]
    assert cluster["state"] == "running"
    assert outputs["issuer"] == cluster["rrsa_config"]["issuer"]
    assert outputs["kubeconfig"] == KUBECONFIG
    assert stack.sizes() == {"system": 2, "gpu": 1}
    assert stack.pool("gpu")["_nodes"][0]["labels"] == {"athanor.dev/pool": "gpu"}
    assert stack.pool("gpu")["node_config"]["kubelet_configuration"]["maxPods"] == 64
    assert json.loads(stack.addon("ack-node-problem-detector")["config"]) == {"gpu": {"isolation": True}}
    assert stack.addon("goatscaler")["state"] == "active"
    assert "nginx-ingress-controller" not in {addon["name"] for addon in stack.double.account.all("addon").values()}


def test_nothing_has_changed_then(stack: Stack) -> None:
    stack.pulumi("preview", "--refresh", "--expect-no-changes")
    stack.pulumi("refresh", "--yes", "--expect-no-changes")


def test_an_edit_changes_what_it_names(stack: Stack) -> None:
    stack.want(
        system_size="3",
        gpu_min=2,
        gpu_labels={"athanor.dev/pool": "gpu", "team": "research"},
        metrics_version="v0.7.2",
        detector={"gpu": {"isolation": False}},
    )
    expected = dict.fromkeys(("system", "gpu", "metrics", "detector"), "update")
    assert stack.steps() == expected
    stack.pulumi("up", "--yes", "--skip-preview")

    assert stack.sizes() == {"system": 3, "gpu": 2}
    assert {node["labels"]["team"] for node in stack.pool("gpu")["_nodes"]} == {"research"}
    assert stack.addon("metrics-server")["version"] == "v0.7.2"
    assert json.loads(stack.addon("ack-node-problem-detector")["config"]) == {"gpu": {"isolation": False}}
    stack.pulumi("preview", "--refresh", "--expect-no-changes")


def test_a_new_version_upgrades_the_cluster_in_place(stack: Stack) -> None:
    stack.want(version="1.34.3-aliyun.1")
    assert stack.steps() == {"cluster": "update"}
    stack.pulumi("up", "--yes", "--skip-preview")
    (cluster,) = stack.double.account.all("cluster").values()
    assert (cluster["state"], cluster["current_version"]) == ("running", "1.34.3-aliyun.1")
    stack.want(version="1.32.7-aliyun.1")
    with pytest.raises(CommandError, match="can not be upgraded"):
        stack.pulumi("up", "--yes", "--skip-preview")
    stack.want(version="1.34.3-aliyun.1")
    stack.pulumi("preview", "--refresh", "--expect-no-changes")


def test_what_is_sold_out_fails_and_is_had_later(stack: Stack) -> None:
    machines.sell_out(stack.double.account, "ecs.gn8is-8x.32xlarge", "ecs.gn7i-c16g1.4xlarge")
    stack.want(gpu_min=3, spare=True)
    with pytest.raises(CommandError, match=r"OperationDenied\.NoStock"):
        stack.pulumi("up", "--yes", "--skip-preview", "--continue-on-error")
    machines.restock(stack.double.account)
    stack.pulumi("up", "--yes", "--skip-preview")
    assert stack.sizes() == {"gpu": 3, "spare": 1, "system": 3}
    stack.pulumi("preview", "--refresh", "--expect-no-changes")


def test_destroy_leaves_an_empty_account(stack: Stack) -> None:
    stack.pulumi("destroy", "--yes", "--skip-preview")
    assert stack.double.inventory() == {}
