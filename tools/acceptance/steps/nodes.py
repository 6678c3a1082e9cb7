"""The nodes step: Ready, labelled, with the resources that the tables promise; and facts only a real node shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from infra.alicloud.node_pool_inputs import pool_labels
from infra.alicloud.rdma_nodes import max_pods
from infra.gpu.sharing import GPU_RESOURCE
from infra.instance_types import INSTANCE_TYPES
from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.questions import optional
from tools.acceptance.site import is_ready, is_simulated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from athanor.inspection.objects import Object
    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

_INFORMATION = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_DRIVER_LABELS = ("nvidia.com/gpu.driver", "aliyun.accelerator/nvidia_driver", "ack.aliyun.com/nvidia-driver-version")
"""Labels that may name a node's driver: labels of NVIDIA's and of ACK's; which of them ACK sets, a real node shows."""


def nodes(site: Site, findings: Findings) -> None:
    """Look at the nodes of the pools that always have some.

    Raises:
        StepFailedError: there are fewer than the minimum, or one is not as its pool says.
    """
    _look(site, findings, [pool for pool in site.alicloud.node_pools if pool.minimum])


def gpu_nodes(site: Site, findings: Findings) -> None:
    """Look at the nodes of the run's GPU pools, which have some by now.

    Raises:
        SkippedError: the run uses no GPU pool.
        StepFailedError: a node is not as its pool says.
    """
    if not site.pools:
        raise SkippedError("the stack has no GPU pool with a maximum above 0")
    # One that shares its GPUs grows for the pod of the step `sharing` alone.
    _look(site, findings, [pool for pool in site.pools if pool.minimum or not pool.gpu.sharing])


def _look(site: Site, findings: Findings, pools: Sequence[NodePoolSettings]) -> None:
    wrong: list[str] = []
    for pool in pools:
        fewest = max(1, pool.minimum)
        nodes = site.wait(lambda pool=pool: _ready(site, pool), f"a Ready node of pool {pool.name}", site.patience.node)
        if len(nodes) < fewest:
            wrong.append(f"pool {pool.name} has {len(nodes)} Ready nodes, but its minimum is {fewest}")
        for node in nodes:
            wrong += _compare(site, pool, node, findings)
        _show(site, findings, pool, nodes)
    if wrong:
        raise StepFailedError("; ".join(wrong))


def _ready(site: Site, pool: NodePoolSettings) -> list[Object]:
    return [node for node in site.nodes(pool.name) if is_ready(node)]


def _compare(site: Site, pool: NodePoolSettings, node: Object, findings: Findings) -> list[str]:
    """Return the faults of a node; values that only differ from our tables become differences."""
    name, labels = node["metadata"]["name"], cast("Mapping[str, str]", node["metadata"]["labels"])
    missing = {key: value for key, value in pool_labels(pool).items() if labels.get(key) != value}
    wrong = [f"node {name} lacks the labels {missing}"] if missing else []
    facts = INSTANCE_TYPES.get(labels.get(_TYPE_LABEL, ""))
    allocatable = cast("Mapping[str, str]", node["status"]["allocatable"])
    if facts and facts.gpus and not pool.gpu.sharing and allocatable.get(GPU_RESOURCE) != str(facts.gpus):
        wrong.append(
            f"node {name} offers {allocatable.get(GPU_RESOURCE, 'no')} GPUs, but {facts.name} has {facts.gpus}"
        )
    if pool.rdma and not pool.lingjun:  # the only pools whose limit is ours; elsewhere ACK computes it
        expected = max_pods(pool, site.settings.monitoring)
        findings.compare(f"pods of a node of pool {pool.name}", expected, allocatable.get("pods"))
    return wrong


def _show(site: Site, findings: Findings, pool: NodePoolSettings, nodes: Sequence[Object]) -> None:
    for node in nodes:
        name = node["metadata"]["name"]
        findings.figure(f"node {name}", f"pool {pool.name}{', simulated' if is_simulated(node) else ''}")
        for field in _INFORMATION:
            findings.figure(f"{name} {field}", node["status"]["nodeInfo"][field])
        for label in _DRIVER_LABELS:
            if label in node["metadata"]["labels"]:
                findings.figure(f"{name} {label}", node["metadata"]["labels"][label])
    if nodes:
        findings.saw(f"kubectl get node {nodes[0]['metadata']['name']} -o json", _described(nodes[0]))
        _instances(site, findings, nodes)


def _described(node: Object) -> str:
    description = {
        "providerID": node["spec"].get("providerID"),
        "labels": node["metadata"].get("labels", {}),
        "annotations": node["metadata"].get("annotations", {}),
        "taints": node["spec"].get("taints", []),
        "allocatable": node["status"]["allocatable"],
        "nodeInfo": node["status"]["nodeInfo"],
    }
    return json.dumps(description, indent=1, sort_keys=True)


def _instances(site: Site, findings: Findings, nodes: Sequence[Object]) -> None:
    """Ask ECS how the machines were created: metadata service, image, interfaces, spot."""
    ids = [node["spec"]["providerID"].rpartition(".")[2] for node in nodes]
    answer = optional(
        findings,
        f"ecs DescribeInstances {' '.join(ids)}",
        lambda: [
            _instance(one)
            for one in site.cloud.every("ecs", "DescribeInstances", "Instances.Instance", InstanceIds=json.dumps(ids))
        ],
    )
    for one in answer or []:
        findings.figure(f"{one['InstanceId']} metadata service", one["MetadataOptions"])


def _instance(one: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("InstanceId", "InstanceType", "ZoneId", "ImageId", "SpotStrategy", "MetadataOptions", "Tags")
    networks = cast("dict[str, list[Any]]", one.get("NetworkInterfaces") or {})
    return {
        **{name: one.get(name) for name in fields},
        "network interfaces": len(networks.get("NetworkInterface") or []),
    }
