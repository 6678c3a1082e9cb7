"""Node pools and environments that cannot work are refused with the value, the limit and the fix."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import ERDMA_POOL, GPU_POOL, LINGJUN_POOL, SYSTEM_POOL, ZONES, pool, settings

CPU_POOL = {"name": "cpu", "role": "cpu", "instance_types": ["ecs.g8i.4xlarge"], "maximum": 4}
H20_POOL = {"name": "h20", "role": "gpu", "instance_types": ["ecs.gn8v-8x.48xlarge"], "maximum": 4}
EBM_L20_POOL = {"name": "l20", "role": "gpu", "instance_types": ["ecs.ebmgn8is.32xlarge"], "maximum": 4}
A10 = "ecs.gn7i-c16g1.4xlarge"
SHORT_SPOT = pool(spot={"on_demand_when_short": True}, zone_policy="COST_OPTIMIZED")


def _refused(raw):
    with pytest.raises(RefusalError) as refused:
        parse_settings({"alicloud": raw})
    return str(refused.value)


def _environment(*pools, **changes):
    return {"region": "cn-hangzhou", "zones": list(ZONES), "node_pools": [SYSTEM_POOL, *pools], **changes}


@each_row(
    "raw",
    [
        GPU_POOL,
        ERDMA_POOL,
        LINGJUN_POOL,
        CPU_POOL,
        pool(minimum=8),
        pool(instance_types=[A10, "ecs.gn7i-c8g1.2xlarge"]),
        pool(H20_POOL, low_latency=True, zones=[ZONES[0]], maximum=20),
        pool(CPU_POOL, low_latency=True, zones=[ZONES[0]]),
        pool(spot={"price_limits": {A10: 0.5}}),
        pool(system_disk={"size_gib": 1261, "performance_level": "PL3"}),
        pool(data_disks=[{"size_gib": 40}, {"mount_path": "/mnt/scratch"}]),
        pool(labels={"team": "", "example.com/tier": "a.b_c-1"}),
        pool(taints=[{"key": "example.com/team", "value": "vision"}]),
        pool(gpu={"driver_version": "550.144.03", "sharing": {"mode": "cgpu"}}),
        pool(minimum=0, maximum=0),
        pool(data_disks=[{"mount_path": "/var/lib/container"}, {"mount_path": "/data"}]),
        pool(spot={"on_demand_base": 8}),
        pool(taints=[{"key": "a"}, {"key": "a", "effect": "NoExecute"}, {"key": "b"}]),
        pool(labels={"node.kubernetes.io/own": "", "kubernetes.io.example/a": "", "ours.aliyun.com/a": ""}),
    ],
    ids=range(19),
)
def test_what_can_work_is_taken(raw):
    settings(raw)


@each_row(
    ("raw", "says"),
    [
        (pool(minimum=9), ["minimum = 9", "maximum = 8", "Fix: lower minimum"]),
        (pool(minimum=1001, maximum=1001), ["minimum = 1001", "less than or equal to 1000"]),
        (pool(instance_types=[]), ["instance_types = []", "Fix: list an instance type"]),
        (pool(instance_types=[A10, A10]), ["lists a type twice"]),
        (pool(instance_types=["ecs.gn7i-c16g1.4xlarg"]), ["did you mean", A10]),
        (
            pool(instance_types=[A10, "ecs.gn7i-2x.8xlarge"]),
            ["ecs.gn7i-2x.8xlarge", "Fix: put it into a separate pool"],
        ),
        (pool(instance_types=[A10, "ecs.gn8is.4xlarge"]), ["ecs.gn8is.4xlarge", "differs"]),
        (pool(role="cpu"), ["role = 'cpu'", "has GPUs", "use role gpu"]),
        (pool(role="system"), ["role = 'system'", "has GPUs"]),
        (pool(CPU_POOL, role="gpu"), ["role = 'gpu'", "no GPUs"]),
        (pool(CPU_POOL, gpu={"driver_version": "550.144.03"}), ["gpu is set", "role = 'cpu'"]),
        (pool(gpu={"sharing": {"mode": "time_slicing", "replicas": 2}}), ["time_slicing", "mode: cgpu"]),
        (pool(gpu={"sharing": {"mode": "mig", "profile": "1g.10gb"}}), ["mig", "Fix:"]),
        (pool(rdma=True), ["rdma = True", A10, "has no RDMA"]),
        (pool(H20_POOL, rdma=True, image_type="ContainerOS"), ["image_type = 'ContainerOS'", "locked memory"]),
        (pool(instance_types=["ecs.gn7i-c8g1.2xlarge"], eni="exclusive"), ["exclusive ENIs", "at least 7"]),
        (pool(instance_types=["ecs.gn6i-c4g1.xlarge"]), ["10 pods", "at least 12"]),
        (pool(spot={"price_limits": {"ecs.gn7i-c8g1.2xlarge": 1}}), ["price_limits", "ecs.gn7i-c8g1.2xlarge"]),
        (pool(spot={"price_limits": {A10: 0}}), [A10, "greater than 0"]),
        (pool(spot={"on_demand_percentage_above_base": 101}), ["less than or equal to 100"]),
        (pool(spot={"on_demand_when_short": True}), ["zone_policy BALANCE", "Fix: use zone_policy COST_OPTIMIZED"]),
        (pool(low_latency=True, maximum=21, zones=[ZONES[0]]), ["maximum = 21", "at most 20 nodes"]),
        (pool(low_latency=True, spot={}, zones=[ZONES[0]]), ["cannot contain spot nodes"]),
        (pool(H20_POOL, low_latency=True), ["zones of 'h20'", "in one zone", f"zones [{ZONES[0]}]"]),
        (pool(low_latency=True, zones=[ZONES[0]]), [f"do not accept {A10}", "ebmgn8v, g7, g8i, gn8v", "Fix: omit"]),
        (pool(EBM_L20_POOL, low_latency=True, zones=[ZONES[0]]), ["do not accept ecs.ebmgn8is.32xlarge"]),
        (pool(zones=["cn-hangzhou-k"]), ["zones of 'a10' = 'cn-hangzhou-k'", "not one of the environment's zones"]),
        (pool(system_disk={"size_gib": 460, "performance_level": "PL2"}), ["size_gib = 460", "at least 461"]),
        (pool(data_disks=[{"size_gib": 1260, "performance_level": "PL3"}]), ["size_gib = 1260", "at least 1261"]),
        (pool(system_disk={"size_gib": 39}), ["size_gib = 39", "greater than or equal to 40"]),
        (pool(system_disk={"size_gib": 2049}), ["system_disk.size_gib = 2049", "at most 2048"]),
        (
            pool(system_disk={"category": "cloud_auto", "performance_level": "PL1"}),
            ["cloud_auto", "no performance levels"],
        ),
        (pool(system_disk={"mount_path": "/data"}), ["system_disk.mount_path = '/data'", "Fix: omit"]),
        (pool(data_disks=[{}, {}]), ["data_disks.1 has no mount_path"]),
        (pool(data_disks=[{"mount_path": "/a"}, {"mount_path": "/a"}]), ["two disks have the same path"]),
        (pool(data_disks=[{"mount_path": "/etc"}]), ["'/etc'", "would hide what the operating system has"]),
        (pool(data_disks=[{"mount_path": "/usr/local"}]), ["'/usr/local'", "Fix: use a folder such as /mnt/scratch"]),
        (pool(data_disks=[{"mount_path": "/var"}]), ["'/var'", "would hide"]),
        (pool(data_disks=[{"mount_path": "/mnt/../etc"}]), ["'/mnt/../etc'", "is not a plain path"]),
        (pool(data_disks=[{"mount_path": "/mnt/"}]), ["'/mnt/'", "is not a plain path"]),
        (pool(spot={"on_demand_base": 100}), ["spot.on_demand_base = 100", "above maximum = 8"]),
        (
            pool(taints=[{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]),
            ["taints repeats 'a' with effect NoSchedule"],
        ),
        (pool(labels={"kubernetes.io/arch": "c"}), ["kubernetes.io/, which is reserved for Kubernetes"]),
        (pool(labels={"node-role.kubernetes.io/gpu": ""}), ["which is reserved for Kubernetes"]),
        (pool(labels={"x.k8s.io/a": ""}), ["which is reserved for Kubernetes"]),
        (pool(labels={"alibabacloud.com/nodepool-id": "np"}), ["is set by ACK itself"]),
        (pool(labels={"aliyun.accelerator/nvidia_name": "A10"}), ["is set by ACK itself"]),
        (pool(labels={"node.kubernetes.io/instance-type": "a"}), ["is set by the kubelet itself"]),
        (pool(taints=[{"key": "node.kubernetes.io/unschedulable"}]), ["Kubernetes sets and removes them"]),
        (pool(labels={"a b": "c"}), ["is not a valid Kubernetes label key"]),
        (pool(labels={"-a": "c"}), ["is not a valid Kubernetes label key"]),
        (pool(labels={"Example.com/a": "c"}), ["is not a valid Kubernetes label key"]),
        (pool(labels={"a": "c d"}), ["'c d'", "is not a valid Kubernetes label value"]),
        (pool(labels={"a" * 64: "c"}), ["is not a valid Kubernetes label key"]),
        (pool(labels={"athanor.dev/pool": "b"}), ["which is reserved for the platform"]),
        (pool(labels={"ack.node.gpu.schedule": "cgpu"}), ["Fix: use gpu.sharing"]),
        (pool(labels={"ack.aliyun.com/nvidia-driver-version": "1"}), ["Fix: use gpu.driver_version"]),
        (pool(taints=[{"key": ""}]), ["is not a valid Kubernetes label key"]),
        (pool(taints=[{"key": "a", "effect": "Never"}]), ["Never", "NoSchedule"]),
        (pool(name="A10"), ["'A10'", "RFC 1123"]),
        (pool(LINGJUN_POOL, spot={}), ["spot is set", "Lingjun"]),
        (pool(LINGJUN_POOL, low_latency=True), ["low_latency is set"]),
        (pool(LINGJUN_POOL, data_disks=[{}]), ["data_disks is set"]),
        (pool(LINGJUN_POOL, instance_types=[A10]), ["instance_types is set"]),
        (pool(LINGJUN_POOL, gpu={"driver_version": "550.144.03"}), ["gpu.driver_version is set"]),
        (pool(LINGJUN_POOL, eni="shared"), ["eni = 'shared'", "Fix: use eni exclusive"]),
        (pool(LINGJUN_POOL, minimum=1), ["minimum = 1, maximum = 4", "not autoscaled"]),
        (pool(LINGJUN_POOL, role="cpu"), ["role = 'cpu'", "Fix: use role gpu"]),
    ],
    ids=range(68),
)
def test_what_cannot_work_is_refused(raw, says):
    message = _refused(_environment(raw))
    for text in (*says, "Fix:", "athanor:alicloud", "node_pools"):
        assert text in message


@each_row(
    ("raw", "says"),
    [
        (_environment(SHORT_SPOT), ["'a10'", "would buy every node on demand", "to cluster-autoscaler"]),
        (_environment(pool(data_disks=[{"encrypted": False}]), protected=True), ["'a10'", "encrypted = False"]),
        (_environment(pool(image_type="AliyunLinux3")), ["'a10' = 'AliyunLinux3'", "cgroup v1"]),
        (_environment(GPU_POOL, pool(maximum=1)), ["repeats the name 'a10'", "Fix:"]),
        (_environment(node_pools=[GPU_POOL]), ["no pool of role system", "Fix: add one"]),
        (_environment(node_pools=[{**SYSTEM_POOL, "minimum": 0}]), ["no pool of role system has minimum 1"]),
        (
            _environment(node_pools=[{**SYSTEM_POOL, "taints": [{"key": "ours"}]}, GPU_POOL]),
            [f"taints of {SYSTEM_POOL['name']!r}", "Fix: omit its taints"],
        ),
        (_environment(zones=[f"cn-hangzhou-{letter}" for letter in "abcdef"]), ["at most 5 zones"]),
        (_environment(tags={"acs:a": "b"}), ["is not a valid tag key"]),
        (_environment(tags={"aliyun-a": "b"}), ["is not a valid tag key"]),
        (_environment(tags={"http://a": "b"}), ["is not a valid tag key"]),
        (_environment(tags={"athanor:stack": "b"}), ["is not a valid tag key"]),
        (_environment(tags={"": "b"}), ["is not a valid tag key"]),
        (_environment(tags={"a": "x" * 129}), ["is not a valid tag value"]),
        (_environment(tags={f"a{n}": "b" for n in range(19)}), ["at most 15"]),
        (_environment(assume_role={"role_arn": "deployer"}), ["role_arn = 'deployer'"]),
        (_environment(kubernetes={"version": "1.31.1-aliyun.1"}), ["1.31.1-aliyun.1", "older than 1.32"]),
        (_environment(kubernetes={"version": "1.34.10"}), ["version = '1.34.10'"]),
        (
            _environment(kubernetes={"version": "1.34", "proxy_mode": "nftables"}),
            ["proxy_mode = 'nftables'", "from Kubernetes 1.35 on", "version is 1.34. Fix: raise version to 1.35"],
        ),
    ],
    ids=range(19),
)
def test_environments_that_cannot_work_are_refused(raw, says):
    message = _refused(raw)
    for text in (*says, "Fix:"):
        assert text in message


@each_row(
    ("raw", "autoscaler"),
    [
        (SHORT_SPOT, "cluster-autoscaler"),
        ({**SHORT_SPOT, "minimum": 8}, "goatscaler"),
        ({**SHORT_SPOT, "spot": {}}, "goatscaler"),
    ],
    ids=["it sees spot stock", "nothing scales it", "nothing else is bought"],
)
def test_spot_pools_that_stay_spot_are_taken(raw, autoscaler):
    settings(raw, kubernetes={"autoscaler": autoscaler})
