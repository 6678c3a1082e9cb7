"""Node pools: what ACK is asked for, what waits for what."""

from __future__ import annotations

import base64
import subprocess

import pulumi
import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

from infra.alicloud.node_pool_inputs import MOST_MARKS, pool_labels
from infra.alicloud.rdma_nodes import host_network_daemon_sets, max_pods
from infra.cuda import DEFAULT_DRIVER
from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES, instance_type
from infra.settings.monitoring import MonitoringSettings
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import ERDMA_POOL, GPU_POOL, LINGJUN_POOL, pool, settings
from tests.unit.infra.alicloud.node_pool_program import (
    AUTOSCALER,
    DEPLOYMENT_SET,
    FIXED_SYSTEM,
    POOL,
    label_values,
    one_pool,
    pool_inputs,
    record_pools,
)


def test_an_autoscaled_gpu_pool_asks_for_exactly_this():
    """So nobody logs in by password."""
    environment = {"key_pair": "operators", "tags": {"team": "vision"}}
    asked = {
        "clusterId": "cluster-id",
        "nodePoolName": "a10",
        "instanceTypes": ["ecs.gn7i-c16g1.4xlarge"],
        "instanceChargeType": "PostPaid",
        "vswitchIds": ["vsw-nodei", "vsw-nodej"],
        "securityGroupIds": ["sg-own"],
        "multiAzPolicy": "BALANCE",
        "scalingConfig": {"enable": True, "minSize": 0, "maxSize": 8, "type": "gpu"},
        "spotStrategy": "NoSpot",
        "imageType": "AliyunLinux3ContainerOptimized",
        "instanceMetadataOptions": {"httpTokens": "required"},
        "systemDiskCategory": "cloud_essd",
        "systemDiskSize": 120,
        "systemDiskEncrypted": False,
        "systemDiskPerformanceLevel": "PL1",
        "dataDisks": [],
        "labels": [
            {"key": "ack.aliyun.com/nvidia-driver-version", "value": DEFAULT_DRIVER},
            {"key": "ack.node.gpu.schedule", "value": "default"},
            {"key": "athanor.dev/pool", "value": "a10"},
            {"key": "athanor.dev/role", "value": "gpu"},
        ],
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        "management": {
            "enable": True,
            "autoRepair": True,
            "autoRepairPolicy": {"restartNode": False},
            "autoUpgrade": False,
            "autoUpgradePolicy": {"autoUpgradeKubelet": False},
            "autoVulFix": False,
            "maxUnavailable": 1,
        },
        "updateNodes": False,
    }
    own = {"athanor:project": "athanor", "athanor:stack": "prod"}
    assert pool_inputs(GPU_POOL, preview=False) == {**asked, "tags": own}
    named = {**asked, "keyName": "operators", "tags": {"team": "vision", **own}}
    assert pool_inputs(GPU_POOL, preview=False, **environment) == named


def test_a_pool_of_a_fixed_size_is_not_scaled():
    node_pool = one_pool(pool(minimum=4, maximum=4))
    assert node_pool.inputs["desiredSize"] == "4"
    assert node_pool.inputs["scalingConfig"] == {"enable": False, "minSize": 4, "maxSize": 4, "type": "gpu"}
    assert "desiredSize" not in node_pool.ignore_changes


def test_the_autoscalers_number_of_nodes_is_not_a_change():
    node_pool = one_pool(GPU_POOL)
    assert "desiredSize" not in node_pool.inputs
    assert "desiredSize" in node_pool.ignore_changes


@pytest.mark.parametrize("metadata_tokens", ["required", "optional"])
@pytest.mark.parametrize("base", [GPU_POOL, ERDMA_POOL, FIXED_SYSTEM])
def test_what_the_metadata_service_asks_for_counts_only_for_a_new_pool(base, metadata_tokens):
    """The provider replaces a pool whose value differs, be it a new default or what the account has made of it."""
    node_pool = one_pool(pool(base, name="own"), metadata_tokens=metadata_tokens)
    # `optional` is ACK's own default; an account that does not know the option must be able to do without it
    sent = {"httpTokens": "required"} if metadata_tokens == "required" else None
    assert node_pool.inputs.get("instanceMetadataOptions") == sent
    assert "instanceMetadataOptions" in node_pool.ignore_changes


def test_kubelets_of_running_nodes_are_left_alone_where_ack_decides():
    assert "kubeletConfiguration" in one_pool(GPU_POOL).ignore_changes
    assert "kubeletConfiguration" not in one_pool(ERDMA_POOL).ignore_changes


def test_something_scales_where_a_pool_is_scaled():
    recording = record_pools(GPU_POOL, preview=False)
    [scaler] = recording.of_type(AUTOSCALER)
    assert scaler.inputs == {
        "clusterId": "cluster-id",
        "scalerType": "goatscaler",
        "expander": "least-waste",
        "coolDownDuration": "10m",
        "unneededDuration": "10m",
        "scaleUpFromZero": True,
        "skipNodesWithLocalStorage": False,
    }
    assert scaler.urn in recording.one("a10").depends_on
    fixed = record_pools(pool(minimum=1, maximum=1), node_pools=[FIXED_SYSTEM])
    assert fixed.of_type(AUTOSCALER) == []


def test_spot_nodes_up_to_the_on_demand_price():
    inputs = pool_inputs(pool(spot={}))
    assert inputs["spotStrategy"] == "SpotAsPriceGo"
    assert inputs["scalingConfig"]["type"] == "spot"
    assert "spotPriceLimits" not in inputs
    assert inputs["onDemandBaseCapacity"] == "0"


def test_spot_nodes_up_to_a_price():
    spot = {
        "price_limits": {"ecs.gn7i-c16g1.4xlarge": 4.5},
        "on_demand_base": 2,
        "on_demand_percentage_above_base": 25,
        "on_demand_when_short": True,
    }
    raw = pool(spot=spot, zone_policy="COST_OPTIMIZED")
    inputs = pool_inputs(raw, kubernetes={"autoscaler": "cluster-autoscaler"})
    assert (
        inputs.items()
        >= {
            "spotStrategy": "SpotWithPriceLimit",
            "onDemandBaseCapacity": "2",
            "onDemandPercentageAboveBaseCapacity": "25",
            "compensateWithOnDemand": True,
            "multiAzPolicy": "COST_OPTIMIZED",
        }.items()
    )
    assert inputs["spotPriceLimits"] == [{"instanceType": "ecs.gn7i-c16g1.4xlarge", "priceLimit": "4.5"}]


@each_row(("price", "written"), [(10, "10"), (100.0, "100"), (0.125, "0.125")])
def test_prices_are_written_as_people_do(price, written):
    inputs = pool_inputs(pool(spot={"price_limits": {"ecs.gn7i-c16g1.4xlarge": price}}))
    assert inputs["spotPriceLimits"][0]["priceLimit"] == written


def test_disks():
    disks = [
        {"size_gib": 500, "performance_level": "PL2", "encrypted": True},
        {"category": "cloud_auto", "size_gib": 1000, "mount_path": "/mnt/scratch"},
    ]
    inputs = pool_inputs(pool(system_disk={"category": "cloud_auto", "size_gib": 200}, data_disks=disks))
    assert inputs["systemDiskCategory"] == "cloud_auto"
    assert "systemDiskPerformanceLevel" not in inputs
    formatted = {"autoFormat": "true", "fileSystem": "ext4"}
    first = {"category": "cloud_essd", "size": 500, "performanceLevel": "PL2", "mountTarget": "/var/lib/container"}
    second = {"category": "cloud_auto", "size": 1000, "mountTarget": "/mnt/scratch"}
    assert inputs["dataDisks"] == [
        {**first, "encrypted": "true", **formatted},
        {**second, "encrypted": "false", **formatted},
    ]


def test_what_a_gpu_node_is_created_with():
    raw = pool(
        gpu={"driver_version": "550.144.03", "sharing": {"mode": "cgpu"}},
        eni="exclusive",
        labels={"team": "vision"},
        taints=[{"key": "team", "value": "vision", "effect": "NoExecute"}],
    )
    inputs = pool_inputs(raw)
    assert label_values(inputs) == {
        "team": "vision",
        "athanor.dev/pool": "a10",
        "athanor.dev/role": "gpu",
        "ack.aliyun.com/nvidia-driver-version": "550.144.03",
        "ack.node.gpu.schedule": "cgpu",
        "ack.node.gpu.placement": "binpack",
        "k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly",
    }
    assert {(t["key"], t["effect"]) for t in inputs["taints"]} == {
        ("nvidia.com/gpu", "NoSchedule"),
        ("team", "NoExecute"),
    }


def test_a_pool_without_gpus_has_no_mark_of_one():
    system = record_pools().one("system")
    assert label_values(system.inputs) == {"athanor.dev/pool": "system", "athanor.dev/role": "system"}
    assert system.inputs["taints"] == []
    assert system.inputs["updateNodes"] is True
    assert system.inputs["management"]["autoRepairPolicy"] == {"restartNode": True}


def test_nodes_follow_an_upgrade_channel():
    management = pool_inputs(GPU_POOL, kubernetes={"auto_upgrade": "stable"})["management"]
    assert management["autoUpgrade"] is True
    assert management["autoUpgradePolicy"] == {"autoUpgradeKubelet": True}


def test_nodes_that_are_close_together():
    recording = record_pools(
        pool(instance_types=["ecs.gn8v-8x.48xlarge"], low_latency=True, zones=["cn-hangzhou-j"]), preview=False
    )
    placement = recording.one("a10-placement")
    assert placement.type == DEPLOYMENT_SET
    assert placement.inputs == {"strategy": "LowLatency", "deploymentSetName": "athanor-prod-a10-placement"}
    node_pool = recording.one("a10")
    assert node_pool.inputs["deploymentSetId"] == "a10-placement-id"
    assert node_pool.inputs["vswitchIds"] == ["vsw-nodej"]


def test_zones_keep_the_pools_order():
    assert pool_inputs(pool(zones=["cn-hangzhou-j", "cn-hangzhou-i"]))["vswitchIds"] == ["vsw-nodej", "vsw-nodei"]


def test_pools_with_rdma_wait_for_the_controller_and_terway():
    recording = record_pools(GPU_POOL, ERDMA_POOL)
    controller = recording.one("stands-for-the-controller")
    assert controller.urn in recording.one("h20").depends_on
    assert controller.urn not in recording.one("a10").depends_on
    assert recording.one("system").urn in controller.depends_on
    assert label_values(recording.one("h20").inputs)["terway-config"] == "athanor-erdma"
    assert "terway-config" not in label_values(recording.one("a10").inputs)


SHARED_CORES = pool(name="cores", gpu={"sharing": {"mode": "cgpu", "isolation": "memory_and_cores"}})
EXPECTED = "k8s.io/cluster-autoscaler/node-template/resource/"
CLUSTER_AUTOSCALER = {"autoscaler": "cluster-autoscaler"}


@each_row(
    ("raw", "expected"),
    [(ERDMA_POOL, {"aliyun/erdma": "400"}), (SHARED_CORES, {"aliyun.com/gpu-core.percentage": "100"}), (GPU_POOL, {})],
    ids=["rdma", "cores", "whole GPUs"],
)
def test_a_pool_that_may_be_empty_grows_or_is_refused(raw, expected):
    empty = pool(raw, minimum=0)
    own = {"athanor:project", "athanor:stack"}
    tags = pool_inputs(empty, kubernetes=CLUSTER_AUTOSCALER)["tags"]
    assert {key: value for key, value in tags.items() if key not in own} == {
        f"{EXPECTED}{name}": count for name, count in expected.items()
    }
    for grows in (pool(raw, minimum=1), pool(raw, minimum=2, maximum=2), *([] if expected else [empty])):
        assert pool_inputs(grows)["tags"].keys() == own
    if expected:
        with pytest.raises(RefusalError, match=rf"{empty['name']}.*{next(iter(expected))}.*never grow.*cluster-auto"):
            pool_inputs(empty)


def test_a_lingjun_pool_takes_what_the_node_group_has():
    inputs = pool_inputs(LINGJUN_POOL, preview=False)
    assert set(inputs) == {
        "clusterId", "nodePoolName", "type", "efloNodeGroup", "desiredSize", "vswitchIds", "securityGroupIds",
        "labels", "taints", "tags", "updateNodes",
    }  # fmt: skip
    assert inputs["type"] == "lingjun"
    assert inputs["efloNodeGroup"] == {"clusterId": "i-lingjun", "groupId": "i-group"}
    assert inputs["desiredSize"] == "4"
    assert label_values(inputs)["k8s.aliyun.com/exclusive-mode-eni-type"] == "eniOnly"


def test_a_lingjun_pool_keeps_its_group():
    recording = record_pools(LINGJUN_POOL)
    node_pool = recording.one("lingjun")
    name = node_pool.before_update[0]
    args = pulumi.ResourceHookArgs(urn=node_pool.urn, id="np1", name="lingjun", type=POOL)
    other = {**node_pool.inputs, "efloNodeGroup": {"clusterId": "i-lingjun", "groupId": "another"}}
    args.old_inputs, args.new_inputs = node_pool.inputs, other
    with pytest.raises(RefusalError, match="lingjun of node pool 'lingjun'"):
        recording.hooks[name](args)
    args.new_inputs = {**node_pool.inputs, "desiredSize": "5"}
    recording.hooks[name](args)


WITH_ERDMA = sorted(name for name, facts in INSTANCE_TYPES.items() if facts.rdma == "erdma")


@search(max_examples=40)
@given(name=st.sampled_from(WITH_ERDMA), eni=st.sampled_from(["shared", "exclusive"]))
def test_the_kubelet_of_an_rdma_node_takes_as_many_pods_as_terway_has_addresses(name, eni):
    raw = pool(instance_types=[name], eni=eni, rdma=True)
    expected = instance_type(name).pods(eni, rdma=True)
    try:
        instance_type(name).check_can_join(eni, rdma=True)
    except RefusalError as refused:
        with pytest.raises(ValueError, match=str(refused.limit)):
            settings(raw)
        return
    assert max_pods(settings(raw).node_pools[1], None) == expected + len(host_network_daemon_sets(None))


def test_of_unlike_rdma_types_the_smallest_decides():
    raw = pool(instance_types=["ecs.gn8v.4xlarge", "ecs.gn8v.6xlarge"], rdma=True, minimum=1)
    assert pool_inputs(raw)["kubeletConfiguration"] == {"maxPods": str((8 - 1 - 2) * 30 + 6)}


@each_row(
    ("monitoring", "own"),
    [
        ({}, {"node-exporter"}),
        ({"kind": "managed"}, set()),
        ({"kind": "none"}, set()),
        ({"logs": {"kind": "sls"}}, {"node-exporter", "loongcollector-ds"}),
    ],
)
def test_pods_on_the_hosts_network_are_those_that_exist(monitoring, own):
    daemon_sets = host_network_daemon_sets(MonitoringSettings.model_validate(monitoring))
    assert set(daemon_sets) == {*host_network_daemon_sets(None), *own}
    assert len(set(daemon_sets)) == len(daemon_sets)


def script(inputs):
    return base64.b64decode(inputs["preUserData"]).decode()


def test_rdma_nodes_let_containers_lock_memory(tmp_path):
    user_data = script(pool_inputs(ERDMA_POOL))
    assert user_data.startswith("#!/bin/bash\n")
    calls = tmp_path / "systemctl"
    calls.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/calls\n")
    calls.chmod(0o755)
    local = user_data.replace("/etc/systemd", f"{tmp_path}/etc/systemd")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run(["bash", "-euc", local], check=True, env=environment)
    [drop_in] = (tmp_path / "etc/systemd/system/containerd.service.d").iterdir()
    assert drop_in.suffix == ".conf"
    assert drop_in.read_text() == "[Service]\nLimitMEMLOCK=infinity\n"
    assert (tmp_path / "calls").read_text() == "daemon-reload\ntry-restart containerd\n" * 2


def test_nodes_without_rdma_have_the_limit_that_ack_computes_and_no_script_of_ours():
    """Those of GPU_POOL and LINGJUN_POOL have neither: see what such pools ask for."""
    assert not {"kubeletConfiguration", "preUserData"} & pool_inputs(pool(eni="exclusive")).keys()


@each_row("protected", [True, False])
def test_disks_of_a_protected_environment_are_encrypted(protected):
    inputs = pool_inputs(pool(data_disks=[{}]), protected=protected)
    assert inputs["systemDiskEncrypted"] is protected
    assert inputs["dataDisks"][0]["encrypted"] == str(protected).lower()


def marked(count, **changes):
    """A pool with so many tags, labels and taints: 2 tags, 4 labels and a taint are the platform's own."""
    return pool(labels={f"l{number}": "" for number in range(count - 7)}, **changes)


def test_an_autoscaled_pool_has_few_tags_labels_and_taints():
    pool_inputs(marked(MOST_MARKS))
    pool_inputs(marked(MOST_MARKS + 4, minimum=8))
    with pytest.raises(RefusalError, match=r"2 tags, 9 labels, 1 taints .* at most 11 in total\. Fix: "):
        pool_inputs(marked(MOST_MARKS + 1))
    with pytest.raises(RefusalError, match=r"4 tags, 7 labels, 1 taints"):
        pool_inputs(marked(MOST_MARKS - 1), tags={"a": "b", "c": "d"})


def test_own_labels_cannot_be_overruled():
    pool_settings = settings(GPU_POOL).node_pools[1].model_copy(update={"labels": {"athanor.dev/pool": "system"}})
    assert pool_labels(pool_settings)["athanor.dev/pool"] == "a10"
