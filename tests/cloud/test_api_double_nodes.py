"""Node pools of the API double are nodes of a real cluster: made, scheduled onto, grown, and gone with their pool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_double.cs.kubernetes_side import KubernetesSide
from tests.unit.api_double.cs.service import Service
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.local_cluster import Kubectl
    from tools.local_cluster import LocalCluster

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
OURS = "athanor.dev/api-double=node"


@pytest.fixture
def service(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[Service]:
    """An account whose clusters stand on the module's cluster, which is left as it was found."""
    labels = kubectl.get("node", cluster.node_name)["metadata"]["labels"]
    service = Service()
    side = service.account.kubernetes = KubernetesSide(service.account, cluster.kubeconfig.read_text())
    side.start()
    try:
        yield service
        for cluster_id in service.account.all("cluster"):
            service.call("DELETE", f"/clusters/{cluster_id}")
        side.await_idle()
        assert side.failures == []
    finally:
        side.close()
    assert _names(kubectl, "nodes") == [cluster.node_name]
    assert kubectl.get("node", cluster.node_name)["metadata"]["labels"] == labels
    for kind in ("csidrivers", "customresourcedefinitions"):
        assert not [name for name in _names(kubectl, kind) if "alibabacloud" in name]
    assert "eni-config" not in _names(kubectl, "configmaps", "-n", "kube-system")


def _names(kubectl: Kubectl, kind: str, *words: str) -> list[str]:
    return [item["metadata"]["name"] for item in kubectl.get(kind, *words)["items"]]


def _ready(service: Service, kubectl: Kubectl) -> list[dict[str, Any]]:
    service.account.kubernetes.await_idle()
    kubectl.wait("condition=Ready", "nodes", "-l", OURS)
    return kubectl.get("nodes", "-l", OURS)["items"]


def _gpu_pod(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": [TOLERATION], **spec},
    }


def test_a_pools_nodes_follow_it(service: Service, kubectl: Kubectl) -> None:
    cluster_id = service.cluster()
    pool = {"taints": [TAINT], "labels": [{"key": "athanor.dev/pool", "value": "train"}]}
    path = service.pool(cluster_id, scaling_group={"desired_size": 3}, kubernetes_config=pool)

    nodes = _ready(service, kubectl)
    assert len(nodes) == 3
    assert {node["metadata"]["labels"]["athanor.dev/pool"] for node in nodes} == {"train"}
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"1"}
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {"v1.34.10-aliyun.1"}

    service.finish(service.call("PUT", path, {"scaling_group": {"desired_size": 1}}))
    assert _names(kubectl, "nodes", "-l", OURS) == [service.nodes(path)[0]["name"]]

    change = {"kubernetes_config": {"labels": [{"key": "athanor.dev/pool", "value": "serve"}]}, "update_nodes": True}
    service.finish(service.call("PUT", path, change))
    assert _ready(service, kubectl)[0]["metadata"]["labels"]["athanor.dev/pool"] == "serve"

    service.finish(service.call("DELETE", path, force="true"))
    assert _names(kubectl, "nodes", "-l", OURS) == []


def test_pods_that_wait_for_gpus_make_their_pool_grow_to_its_limit(service: Service, kubectl: Kubectl) -> None:
    cluster_id = service.cluster()
    service.finish(service.call("POST", f"/cluster/{cluster_id}/autoscale/config/", {"scaler_type": "goatscaler"}))
    scaling = {"enable": True, "min_instances": 0, "max_instances": 2, "type": "gpu"}
    path = service.pool(
        cluster_id,
        scaling_group={"desired_size": None, "instance_types": ["ecs.gn7i-2x.8xlarge"]},
        auto_scaling=scaling,
        kubernetes_config={"taints": [TAINT], "labels": [{"key": "athanor.dev/pool", "value": "train"}]},
    )
    service.pool(cluster_id, "other", auto_scaling={**scaling, "max_instances": 9}, scaling_group={"desired_size": 0})
    assert service.nodes(path) == []
    selector = {"nodeSelector": {"athanor.dev/pool": "train"}}
    kubectl.apply(*(_gpu_pod(f"wants-{number}", 2, **selector) for number in range(3)))
    try:
        wait_until(lambda: len(service.nodes(path)) == 2, "the pool has grown")
        wait_until(lambda: _phases(kubectl).count("Running") == 2, "two of the three pods run")
        assert service.call("GET", path)["status"]["total_nodes"] == 2
        assert sum(len(pool["_nodes"]) for pool in service.account.all("node_pool").values()) == 2

        service.finish(service.call("DELETE", path, force="true"))
        # pods of a node that is gone go with it
        wait_until(lambda: _phases(kubectl) == ["Pending"], "only the pod that never ran is left")
    finally:
        kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def _phases(kubectl: Kubectl) -> list[str]:
    return [pod["status"]["phase"] for pod in kubectl.get("pods")["items"]]


def test_what_must_really_run_runs_on_the_real_node(service: Service, kubectl: Kubectl, cluster: LocalCluster) -> None:
    labels = [{"key": "athanor.dev/pool", "value": "system"}]
    group = {"instance_types": ["ecs.g7.xlarge"], "desired_size": 2}
    service.pool(service.cluster(), "system", scaling_group=group, kubernetes_config={"labels": labels})
    _ready(service, kubectl)
    pod = _gpu_pod("platform", 0, nodeSelector={"athanor.dev/pool": "system"})
    pod["spec"]["containers"][0].pop("resources")
    kubectl.apply(pod)
    try:
        kubectl.wait("condition=PodScheduled", "pod/platform")
        assert kubectl.get("pod", "platform")["spec"]["nodeName"] == cluster.node_name
    finally:
        kubectl("delete", "pod", "platform", "--force", "--grace-period=0")


def test_a_nodes_devices_follow_the_addons(service: Service, kubectl: Kubectl) -> None:
    cluster_id = service.cluster()
    service.pool(cluster_id, scaling_group={"instance_types": ["ecs.gn8is.4xlarge"], "desired_size": 1})
    assert "aliyun/erdma" not in _ready(service, kubectl)[0]["status"]["capacity"]
    components = f"/clusters/{cluster_id}/components"
    service.finish(service.call("POST", f"{components}/install", [{"name": "ack-erdma-controller"}]))
    assert kubectl.get("nodes", "-l", OURS)["items"][0]["status"]["allocatable"]["aliyun/erdma"] == "400"
    service.finish(service.call("POST", f"{components}/uninstall", [{"name": "ack-nvidia-device-plugin"}]))
    assert "nvidia.com/gpu" not in kubectl.get("nodes", "-l", OURS)["items"][0]["status"]["allocatable"]


def test_terway_makes_pod_networks_ready(service: Service, kubectl: Kubectl) -> None:
    service.cluster()
    configuration = kubectl.get("configmap", "eni-config", "-n", "kube-system")["data"]
    assert json.loads(configuration["eni_conf"])["enable_eni_trunking"]
    kubectl.apply(
        {
            "apiVersion": "network.alibabacloud.com/v1beta1",
            "kind": "PodNetworking",
            "metadata": {"name": "train"},
            "spec": {
                "eniOptions": {"eniType": "Trunk"},
                "selector": {"podSelector": {"matchLabels": {"network": "train"}}},
                "vSwitchOptions": ["vsw-pod-1"],
                "securityGroupIDs": ["sg-1"],
            },
        }
    )
    kubectl.wait("jsonpath={.status.status}=Ready", "podnetworking/train")
    status = kubectl.get("podnetworking", "train")["status"]
    assert status["vSwitches"] == [{"id": "vsw-pod-1", "zone": "cn-hangzhou-j"}]


def test_storage_drivers_are_there(service: Service, kubectl: Kubectl) -> None:
    service.cluster()
    assert "nasplugin.csi.alibabacloud.com" in _names(kubectl, "csidrivers")
