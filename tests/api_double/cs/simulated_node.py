"""Machines of a node pool as Kubernetes nodes that kwok keeps alive: labels, taints and capacity as ACK gives them.

Sources: ACK, "Labels used by ACK to control GPUs", "Work with Terway"; the device plugins' own documentation.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.instance_types import INSTANCE_TYPES, InstanceType
from tests.api_double.cs.body import items
from tests.api_double.cs.machines import is_lingjun
from tests.api_double.cs.versions import CONTAINER_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from tests.api_double.account import Record
    from tests.api_double.cs.kubernetes_api import Object

MARK = "athanor.dev/api-double"
"""Label of every object that the double keeps in a cluster."""
POOL_LABEL = "alibabacloud.com/nodepool-id"
_DIGEST = "athanor.dev/api-double-digest"
KWOK = "kwok.x-k8s.io/node"
STAND_IN = {"key": KWOK, "value": "fake", "effect": "PreferNoSchedule"}
"""The one taint that ACK's nodes do not have: what must really run prefers a node that is real."""
EXCLUSIVE_ENI = ("k8s.aliyun.com/exclusive-mode-eni-type", "eniOnly")
GPU_SCHEDULING = "ack.node.gpu.schedule"
LINGJUN_TAINT = {"key": "node-role.alibabacloud.com/lingjun", "value": "", "effect": "NoSchedule"}
LINGJUN_FACTS = INSTANCE_TYPES["ecs.ebmgn8v.48xlarge"]
"""What a Lingjun machine is taken for: its own size is a matter of the contract."""
TRUNK_MEMBERS = 10
"""Member interfaces of a trunk: a stand-in, for the real number of each type is published nowhere."""
ERDMA_PER_INTERFACE = 200
RDMA_SHARES = 1000
_SHARED_GPU_MODES = {"cgpu", "core_mem", "share", "mps"}


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What of its cluster shows in a node."""

    region: str
    pool_id: str
    pool: Record
    addons: AbstractSet[str]
    trunk: bool
    """Whether Terway gives pods interfaces of their own on shared nodes."""


def manifest(node: Mapping[str, Any], around: Surroundings) -> Object:
    """Return a machine as a Node."""
    facts = facts_of(node["instance_type"], around.pool)
    labels = _labels(node, facts, around)
    capacity = _capacity(node, facts, labels, around)
    addresses = [
        {"type": "InternalIP", "address": node["address"]},
        {"type": "Hostname", "address": node["name"]},
    ]
    made: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["name"], "annotations": {KWOK: "fake"}, "labels": labels},
        "spec": {
            "providerID": f"{around.region}.{node['instance_id']}",
            "taints": [STAND_IN, *_taints(node, around.pool)],
            "unschedulable": bool(around.pool["kubernetes_config"].get("unschedulable")),
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": addresses,
            "nodeInfo": _information(node, around.pool),
        },
    }
    text = json.dumps(made, sort_keys=True)
    made["metadata"]["annotations"][_DIGEST] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return made


def facts_of(instance_type: str, pool: Record) -> InstanceType:
    """Return what a machine of a pool holds."""
    return LINGJUN_FACTS if is_lingjun(pool) else INSTANCE_TYPES[instance_type]


def is_ours(node: Object) -> bool:
    """Tell whether the double keeps a node."""
    return node["metadata"].get("labels", {}).get(MARK) == "node"


def is_simulated(node: Object) -> bool:
    """Return whether a node is simulated, no matter which program keeps it."""
    return KWOK in node["metadata"].get("annotations", {})


def digest(node: Object | None) -> str:
    """Return what tells a node as it is from one as it should be."""
    return "" if node is None else node["metadata"].get("annotations", {}).get(_DIGEST, "")


def status_patch(present: Object, desired: Object) -> Object:
    """Return the merge patch of a node's status; a resource that is no more has to be taken out by name."""
    patch: Object = {"nodeInfo": desired["status"]["nodeInfo"]}
    for part in ("capacity", "allocatable"):
        gone = set(present["status"].get(part, {})) - set(desired["status"][part])
        patch[part] = {**desired["status"][part], **dict.fromkeys(gone)}
    return patch


def _labels(node: Mapping[str, Any], facts: InstanceType, around: Surroundings) -> dict[str, str]:
    labels = {
        MARK: "node",
        POOL_LABEL: around.pool_id,
        "node.alibabacloud.com/nodepool-id": around.pool_id,
        "node.alibabacloud.com/instance-charge-type": "PostPaid",
        "kubernetes.io/hostname": node["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": node["instance_type"],
        "topology.kubernetes.io/region": around.region,
        "topology.kubernetes.io/zone": node["zone"],
    }
    if node["spot"]:
        labels["node.alibabacloud.com/spot-strategy"] = around.pool["scaling_group"]["spot_strategy"]
    if is_lingjun(around.pool):
        labels["alibabacloud.com/lingjun-worker"] = "true"
    if facts.gpu is not None:
        labels |= {
            "aliyun.accelerator/nvidia_name": facts.gpu.label or "NVIDIA-GPU",
            "aliyun.accelerator/nvidia_mem": f"{facts.gpu_memory_gib * 1024}MiB",
            "aliyun.accelerator/nvidia_count": str(facts.gpus),
            GPU_SCHEDULING: "default",
        }
    return labels | node["labels"]


def _taints(node: Mapping[str, Any], pool: Record) -> list[dict[str, str]]:
    own: list[dict[str, str]] = node["taints"]
    return [LINGJUN_TAINT, *own] if is_lingjun(pool) else own


def _capacity(
    node: Mapping[str, Any], facts: InstanceType, labels: Mapping[str, str], around: Surroundings
) -> dict[str, str]:
    exclusive = labels.get(EXCLUSIVE_ENI[0]) == EXCLUSIVE_ENI[1]
    erdma = facts.rdma == "erdma" and not is_lingjun(around.pool) and "ack-erdma-controller" in around.addons
    pods = facts.pods("exclusive" if exclusive else "shared", rdma=erdma)
    capacity = {
        "cpu": str(facts.vcpus),
        "memory": quantity(facts.memory_gib),
        "ephemeral-storage": quantity(_disk_gib(around.pool["scaling_group"])),
        "pods": str(node["max_pods"] or pods),
    }
    if exclusive:
        capacity["aliyun/eni"] = str(pods)
    elif around.trunk:
        capacity["aliyun/member-eni"] = str(TRUNK_MEMBERS)
    if erdma:
        capacity["aliyun/erdma"] = str(ERDMA_PER_INTERFACE * facts.rdma_enis)
    if is_lingjun(around.pool) and "ack-rdma-device-plugin" in around.addons:
        capacity["rdma/hca"] = str(RDMA_SHARES)
    return capacity | _gpus(facts, labels.get(GPU_SCHEDULING, "default"), around.addons)


def _gpus(facts: InstanceType, mode: str, addons: AbstractSet[str]) -> dict[str, str]:
    """Return the GPUs as pods can ask for them: what serves another mode counts for nothing."""
    if facts.gpus == 0:
        return {}
    if mode == "default":
        return {"nvidia.com/gpu": str(facts.gpus)} if "ack-nvidia-device-plugin" in addons else {}
    if "ack-ai-installer" not in addons:
        return {}
    if mode == "topology":
        return {"aliyun.com/gpu": str(facts.gpus)}
    if mode not in _SHARED_GPU_MODES:
        return {}
    shared = {
        "aliyun.com/gpu-count": str(facts.gpus),
        "aliyun.com/gpu-mem": str(facts.gpus * facts.gpu_memory_gib),
    }
    return {**shared, "aliyun.com/gpu-core.percentage": str(facts.gpus * 100)} if mode == "core_mem" else shared


def quantity(gib: int) -> str:
    """Write a size as the API server returns it: it turns 1024Gi into 1Ti."""
    return f"{gib}Gi" if gib % 1024 else f"{gib // 1024}Ti"


def _disk_gib(group: Mapping[str, Any]) -> int:
    """Return the size of the disk that holds images and containers: the first data disk, or else the system disk."""
    disks: list[dict[str, Any]] = items(group, "data_disks")
    return int(disks[0]["size"] if disks else group.get("system_disk_size") or 120)


def _information(node: Mapping[str, Any], pool: Record) -> dict[str, str]:
    runtime, runtime_version = CONTAINER_RUNTIME
    version: str = pool["_kubelet_version"]
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": f"{runtime}://{pool['kubernetes_config'].get('runtime_version') or runtime_version}",
        "kernelVersion": "5.10.134-19.al8.x86_64",
        "kubeProxyVersion": "",
        "kubeletVersion": f"v{version}",
        "machineID": node["instance_id"],
        "operatingSystem": "linux",
        "osImage": "Alibaba Cloud Linux 3",
        "systemUUID": node["instance_id"],
    }
