from __future__ import annotations

import json
from typing import Any

from infra.instance_types import INSTANCE_TYPES
from infra.pod_network_modes import EXCLUSIVE_ENI_LABEL, EXCLUSIVE_ENI_VALUE
from tests.api_double.cs import addons, cluster_objects
from tests.api_double.cs.simulated_node import Surroundings, digest, manifest, status_patch
from tests.tables import each_row
from tests.unit.api_double.cs.service import Service

PLUGIN = "ack-nvidia-device-plugin"


def _node(
    *,
    instance_type: str = "ecs.gn7e-c16g1.32xlarge",
    installed: tuple[str, ...] = (PLUGIN,),
    trunk: bool = False,
    **pool: Any,
) -> dict[str, Any]:
    service = Service()
    cluster_id = service.cluster()
    group = {"instance_types": [instance_type], "desired_size": 1, **pool.pop("scaling_group", {})}
    path = service.pool(cluster_id, scaling_group=group, **pool)
    pool_id = path.rpartition("/")[2]
    around = Surroundings(
        region="cn-hangzhou",
        pool_id=pool_id,
        pool=service.account.all("node_pool")[pool_id],
        addons=set(installed),
        trunk=trunk,
    )
    return manifest(service.nodes(path)[0], around)


def _labelled(**labels: str) -> dict[str, Any]:
    return {"labels": [{"key": key.replace("_", "."), "value": value} for key, value in labels.items()]}


def test_a_gpu_node_is_labelled_as_ack_labels_it() -> None:
    labels = _node(kubernetes_config={"labels": [{"key": "athanor.dev/pool", "value": "train"}]})["metadata"]["labels"]
    expected = {
        "athanor.dev/pool": "train",
        "node.kubernetes.io/instance-type": "ecs.gn7e-c16g1.32xlarge",
        "topology.kubernetes.io/region": "cn-hangzhou",
        "topology.kubernetes.io/zone": "cn-hangzhou-i",
        "aliyun.accelerator/nvidia_name": "NVIDIA-A100-SXM4-80GB",
        "aliyun.accelerator/nvidia_mem": f"{80 * 1024}MiB",
        "aliyun.accelerator/nvidia_count": "8",
        "ack.node.gpu.schedule": "default",
    }
    assert expected.items() <= labels.items()
    assert labels["alibabacloud.com/nodepool-id"].startswith("np")


def test_a_nodes_size_is_its_types() -> None:
    node = _node(scaling_group={"system_disk_size": 200})
    capacity = node["status"]["capacity"]
    facts = INSTANCE_TYPES["ecs.gn7e-c16g1.32xlarge"]
    assert capacity == {
        "cpu": "128",
        "memory": "1000Gi",
        "ephemeral-storage": "200Gi",
        "pods": str(facts.shared_eni_pods),
        "nvidia.com/gpu": "8",
    }
    assert node["status"]["allocatable"] == capacity


def test_images_are_on_the_first_data_disk() -> None:
    node = _node(scaling_group={"data_disks": [{"category": "cloud_essd", "size": 2048}]})
    assert node["status"]["capacity"]["ephemeral-storage"] == "2Ti"


def test_the_pools_own_limit_of_pods_counts() -> None:
    node = _node(node_config={"kubelet_configuration": {"maxPods": 32}})
    assert node["status"]["capacity"]["pods"] == "32"


def test_interfaces_are_counted_by_mode() -> None:
    assert _node(trunk=True)["status"]["capacity"]["aliyun/member-eni"] == "10"
    labels = {"labels": [{"key": EXCLUSIVE_ENI_LABEL, "value": EXCLUSIVE_ENI_VALUE}]}
    capacity = _node(trunk=True, kubernetes_config=labels)["status"]["capacity"]
    assert capacity["aliyun/eni"] == capacity["pods"] == "15"
    assert "aliyun/member-eni" not in capacity


def test_rdma_needs_its_controller_and_takes_interfaces_from_pods() -> None:
    without = _node(instance_type="ecs.gn8v-8x.48xlarge")["status"]["capacity"]
    capacity = _node(instance_type="ecs.gn8v-8x.48xlarge", installed=(PLUGIN, "ack-erdma-controller"))["status"][
        "capacity"
    ]
    assert "aliyun/erdma" not in without
    assert capacity["aliyun/erdma"] == "400"
    assert int(capacity["pods"]) < int(without["pods"])
    assert "aliyun/erdma" not in _node(installed=(PLUGIN, "ack-erdma-controller"))["status"]["capacity"]


@each_row(
    ("mode", "installed", "gpus"),
    [
        ("default", (PLUGIN,), {"nvidia.com/gpu": "8"}),
        ("default", (), {}),
        ("cgpu", (PLUGIN,), {}),
        ("cgpu", ("ack-ai-installer",), {"aliyun.com/gpu-count": "8", "aliyun.com/gpu-mem": "640"}),
        ("mps", ("ack-ai-installer",), {"aliyun.com/gpu-count": "8", "aliyun.com/gpu-mem": "640"}),
        (
            "core_mem",
            ("ack-ai-installer",),
            {"aliyun.com/gpu-count": "8", "aliyun.com/gpu-mem": "640", "aliyun.com/gpu-core.percentage": "800"},
        ),
        ("topology", (PLUGIN, "ack-ai-installer"), {"aliyun.com/gpu": "8"}),
    ],
)
def test_gpus_can_be_asked_for_in_one_way(mode: str, installed: tuple[str, ...], gpus: dict[str, str]) -> None:
    capacity = _node(installed=installed, kubernetes_config=_labelled(ack_node_gpu_schedule=mode))["status"]["capacity"]
    assert {name: amount for name, amount in capacity.items() if "gpu" in name} == gpus


def test_a_cpu_node_has_no_gpus() -> None:
    node = _node(instance_type="ecs.g7.xlarge")
    assert not any(
        "gpu" in name or "nvidia" in name for name in {**node["status"]["capacity"], **node["metadata"]["labels"]}
    )


def test_real_pods_prefer_real_nodes_and_may_be_kept_away_by_the_pools_taints() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    taints = _node(kubernetes_config={"taints": [taint]})["spec"]["taints"]
    assert [one["effect"] for one in taints] == ["PreferNoSchedule", "NoSchedule"]
    assert taints[1] == taint


def test_spot_nodes_say_so() -> None:
    labels = _node(scaling_group={"spot_strategy": "SpotAsPriceGo"})["metadata"]["labels"]
    assert labels["node.alibabacloud.com/spot-strategy"] == "SpotAsPriceGo"


def test_a_lingjun_node_carries_its_taint_and_device() -> None:
    lingjun = {
        "nodepool_info": {"name": "rdma", "type": "lingjun"},
        "eflo_node_group": {"cluster_id": "i1", "group_id": "i2"},
    }
    node = _node(installed=(PLUGIN, "ack-rdma-device-plugin", "ack-erdma-controller"), **lingjun)
    assert node["metadata"]["labels"]["alibabacloud.com/lingjun-worker"] == "true"
    assert "node-role.alibabacloud.com/lingjun" in {taint["key"] for taint in node["spec"]["taints"]}
    assert "rdma/hca" in node["status"]["capacity"]
    assert "aliyun/erdma" not in node["status"]["capacity"]


def test_a_changed_node_has_another_digest() -> None:
    assert digest(_node()) == digest(_node())
    assert digest(_node()) != digest(_node(installed=()))
    assert digest(None) == digest({"metadata": {}}) == ""


def test_a_resource_that_is_gone_is_taken_out() -> None:
    before = _node()
    patch = status_patch(before, _node(installed=()))
    assert patch["capacity"]["nvidia.com/gpu"] is None
    assert patch["allocatable"]["cpu"] == "128"


def test_terway_starts_with_the_clusters_pod_vswitches() -> None:
    service = Service()
    cluster_id = service.cluster()
    cluster = service.account.all("cluster")[cluster_id]
    configuration = cluster_objects.eni_config(service.account, cluster, {"ENITrunking": "true"})
    settings = json.loads(configuration["data"]["eni_conf"])
    assert settings["vswitches"] == {"cn-hangzhou-i": ["vsw-pod-0"], "cn-hangzhou-j": ["vsw-pod-1"]}
    assert settings["enable_eni_trunking"]
    assert configuration["data"]["disable_network_policy"] == "true"


def test_storage_drivers_come_with_their_addon() -> None:
    service = Service()
    cluster_id = service.cluster()
    drivers = cluster_objects.csi_drivers(addons.installed(service.account, cluster_id))
    assert [driver["metadata"]["name"] for driver in drivers] == [
        "diskplugin.csi.alibabacloud.com",
        "nasplugin.csi.alibabacloud.com",
        "ossplugin.csi.alibabacloud.com",
    ]
    assert cluster_objects.csi_drivers({}) == []
