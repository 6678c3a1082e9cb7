"""`dev` from an empty account to a GPU job on its nodes and back: real engine, real providers, a pretended account.

A real local cluster stands behind the account's ACK cluster, so the platform's own pods run; the nodes of the pools are
simulated. The tests build on each other in their order: one environment is made, edited and destroyed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clone import REPOSITORY, Clone, wait_until
from tests.fixtures.cloud import Step, edit, environment_clone, leave_out_monitoring, steps

if TYPE_CHECKING:
    from tools.api_double.double import ApiDouble
    from tools.local_cluster import LocalCluster

STACK = "dev"
CLUSTER = "behind"
POOL = "alicloud:cs/nodePool:NodePool"
QUOTA = "kubernetes:core/v1:ResourceQuota"
QUEUE = "kubernetes:scheduling.volcano.sh/v1beta1:Queue"
HYPER_NODE = "kubernetes:topology.volcano.sh/v1alpha1:HyperNode"


@pytest.fixture(scope="module")
def dev(account: ApiDouble, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The environment after its first `pulumi up`."""
    folder = tmp_path_factory.mktemp("dev")
    clone = environment_clone(folder / "clone", folder / "home", STACK, account.environment())
    leave_out_monitoring(clone, STACK)
    clone.pulumi("up", "--yes", "--skip-preview", "--stack", STACK)
    return clone


def in_cluster(behind: LocalCluster, clone: Clone, *words: str) -> dict[str, Any]:
    return json.loads(clone.kubectl(f"--kubeconfig={behind.kubeconfig}", "get", *words, "-o", "json"))


def pool_nodes(behind: LocalCluster, clone: Clone, pool: str) -> list[dict[str, Any]]:
    """Return a pool's own machines; a real node that carries the system pool's labels, so that pods run, is none."""
    labels = f"athanor.dev/pool={pool},alibabacloud.com/nodepool-id"
    listed = in_cluster(behind, clone, "nodes", "-l", labels)["items"]
    return [node for node in listed if "kwok.x-k8s.io/node" in node["metadata"].get("annotations", {})]


def exported(clone: Clone) -> list[dict[str, Any]]:
    return json.loads(clone.pulumi("stack", "export", "--stack", STACK, merge=False))["deployment"]["resources"]


def test_the_account_holds_the_whole_environment(account: ApiDouble, dev: Clone) -> None:
    held = account.inventory()
    assert account.unknown_operations() == []
    assert account.mistakes() == []
    assert {kind: len(ids) for kind, ids in held.items() if kind in {"vpc", "vswitch", "cluster", "node_pool"}} == {
        "vpc": 1,
        "vswitch": 2,
        "cluster": 1,
        "node_pool": 2,
    }
    outputs = json.loads(dev.pulumi("stack", "output", "--json", "--stack", STACK, merge=False))
    assert outputs["alicloud_vpc_id"] in held["vpc"]


def test_pools_are_nodes_with_labels_taints_and_gpus(behind: LocalCluster, dev: Clone) -> None:
    # no node to begin with: the pending job makes the pool grow
    nodes = wait_until(lambda: found if len(found := pool_nodes(behind, dev, "a10")) >= 2 else None, "two GPU nodes")
    for node in nodes:
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ecs.gn7i-c8g1.2xlarge"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
        assert "nvidia.com/gpu" in {taint["key"] for taint in node["spec"]["taints"]}
    assert len(pool_nodes(behind, dev, "system")) == 2


def test_the_gpu_job_runs_on_gpu_nodes_alone(behind: LocalCluster, dev: Clone) -> None:
    def placed() -> list[str]:
        pods = in_cluster(behind, dev, "pods", "-n", "athanor", "-l", "athanor.dev/job")["items"]
        return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]

    nodes = wait_until(lambda: found if len(found := placed()) == 2 else None, "both workers to be placed")
    gpu = {node["metadata"]["name"] for node in pool_nodes(behind, dev, "a10")}
    assert set(nodes) <= gpu


def test_a_second_up_changes_nothing(dev: Clone) -> None:
    printed = dev.pulumi("up", "--yes", "--skip-preview", "--stack", STACK)
    assert "unchanged" in printed
    assert "to update" not in printed
    assert steps(dev, STACK) == []


def test_a_refresh_finds_no_drift(dev: Clone) -> None:
    shown = json.loads(dev.pulumi("refresh", "--preview-only", "--json", "--stack", STACK, merge=False))
    assert {step["op"] for step in shown["steps"]} <= {"same", "refresh"}
    assert "update" not in shown.get("changeSummary", {})


def test_the_state_holds_no_credentials(behind: LocalCluster, dev: Clone) -> None:
    text = json.dumps(exported(dev))
    kubeconfig = behind.kubeconfig.read_text(encoding="utf-8")
    for line in kubeconfig.splitlines():
        key, _, value = line.strip().partition(": ")
        if key in {"client-key-data", "client-certificate-data"}:
            assert value not in text
    assert dev.variables["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] not in text


def pool_named(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return next(pool for pool in settings["node_pools"] if pool["name"] == name)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda s: pool_named(s, "a10").update(maximum=6),
            {
                Step("update", POOL, "a10"),
                # what derives from the pools: the share of the queue, the most that may be asked for
                Step("update", QUEUE, "queue-training"),
                Step("update", QUOTA, "workload-quota"),
            },
        ),
        (
            lambda s: s["node_pools"].append(
                {"name": "cpu", "role": "cpu", "instance_types": ["ecs.c7.xlarge"], "maximum": 1}
            ),
            {
                Step("create", POOL, "cpu"),
                Step("update", QUOTA, "workload-quota"),
                Step("create", HYPER_NODE, "hyper-node-pool.cpu.cn-hangzhou-i"),
                Step("update", HYPER_NODE, "hyper-node-zone.cn-hangzhou-i"),
            },
        ),
        (
            lambda s: s.setdefault("kubernetes", {}).update(version="1.35.2-aliyun.1"),
            {Step("update", "alicloud:cs/managedKubernetes:ManagedKubernetes", "cluster")},
        ),
        (
            lambda s: pool_named(s, "a10").update(gpu={"driver_version": "550.144.03"}),
            {Step("update", POOL, "a10")},
        ),
    ],
    ids=["larger-pool", "one-more-pool", "kubernetes-version", "driver-version"],
)
def test_an_edit_shows_exactly_its_steps(dev: Clone, change: Any, expected: set[Step]) -> None:
    file = dev.folder / f"Pulumi.{STACK}.yaml"
    before = file.read_bytes()
    try:
        edit(dev, STACK, change)
        assert {step for step in steps(dev, STACK) if step.kind.startswith(("alicloud:", "kubernetes:"))} == expected
    finally:
        file.write_bytes(before)


def test_a_create_only_field_is_refused_in_the_preview(dev: Clone) -> None:
    file = dev.folder / f"Pulumi.{STACK}.yaml"
    before = file.read_bytes()
    try:
        edit(dev, STACK, lambda settings: settings.setdefault("kubernetes", {}).update(public_api_server=True))
        printed = dev.pulumi("preview", "--stack", STACK, check=False)
    finally:
        file.write_bytes(before)
    assert "alicloud.kubernetes.public_api_server" in printed
    assert "Fix:" in printed


def test_a_larger_pool_is_applied_and_nothing_in_the_cluster_is_replaced(
    account: ApiDouble, behind: LocalCluster, dev: Clone
) -> None:
    edit(dev, STACK, lambda settings: pool_named(settings, "system").update(minimum=3, maximum=3))
    printed = dev.pulumi("up", "--yes", "--skip-preview", "--stack", STACK)
    assert "replace" not in printed
    wait_until(
        lambda: len(pool_nodes(behind, dev, "system")) == 3,
        "the third system node",
    )
    assert account.mistakes() == []


def allowed_actions() -> set[str]:
    policies = [
        json.loads((REPOSITORY / "docs" / f"{name}.json").read_text()) for name in ("ram-policy", "ram-policy-oss")
    ]
    return {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


def test_destroy_leaves_an_empty_account_and_no_node(account: ApiDouble, behind: LocalCluster, dev: Clone) -> None:
    dev.pulumi("destroy", "--yes", "--skip-preview", "--stack", STACK)

    assert account.inventory() == {}
    assert account.mistakes() == []
    nodes = in_cluster(behind, dev, "nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == [
        node["metadata"]["name"] for node in nodes if "athanor.dev/pool" not in node["metadata"]["labels"]
    ]
    namespaces = {item["metadata"]["name"] for item in in_cluster(behind, dev, "namespaces")["items"]}
    assert {f"{call.product}:{call.operation}" for call in account.log.calls()} <= allowed_actions()
    assert namespaces <= {"default", "kube-system", "kube-public", "kube-node-lease"}
