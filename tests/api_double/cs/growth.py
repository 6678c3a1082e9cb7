"""How many nodes more a pool needs for the pods that wait for GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.api_double.cs.kubernetes_api import Object

_WAITING = {"Unschedulable", "Undetermined", "SchedulerError"}
_ENDED = {"Succeeded", "Failed"}
_FAR_TAINTS = {"NoSchedule", "NoExecute"}
_SIMULATED = {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "aliyun.com/gpu-mem", "pods"}
"""Resources that both scalers expect of a node that does not exist yet (ACK, "Node auto scaling FAQ", "FAQ about node
instant scaling")."""
_EXPECTED_RESOURCE = "k8s.io/cluster-autoscaler/node-template/resource/"


def expected_node(sample: Object, nodes: Sequence[Object], tags: Iterable[Mapping[str, str]]) -> Object:
    """Return a new node of a pool as a scaler expects it.

    Args:
        sample: a node as a new one would be.
        nodes: those that the pool has: a scaler takes one of them for what a new one would be.
        tags: the pool's, as far as the scaler reads them: they name further resources.
    """
    if nodes:
        return sample
    allocatable: dict[str, str] = sample["status"]["allocatable"]
    known = {name: amount for name, amount in allocatable.items() if name in _SIMULATED}
    known |= {
        tag["key"].removeprefix(_EXPECTED_RESOURCE): tag["value"]
        for tag in tags
        if tag["key"].startswith(_EXPECTED_RESOURCE)
    }
    return {**sample, "status": {**sample["status"], "allocatable": known}}


def requested(pod: Object, resource: str) -> int:
    """Return how much of a countable resource the containers of a pod ask for."""
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(resource, 0))
        for container in pod["spec"]["containers"]
    )


def is_waiting(pod: Object) -> bool:
    """Tell whether a scheduler has looked at a pod and found no place for it."""
    return not pod["spec"].get("nodeName") and any(
        condition["type"] == "PodScheduled" and condition["status"] == "False" and condition.get("reason") in _WAITING
        for condition in pod.get("status", {}).get("conditions", [])
    )


def tolerates(pod: Object, taints: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether a pod may be on a node with these taints."""
    tolerations: list[dict[str, Any]] = pod["spec"].get("tolerations", [])
    return all(
        any(_is_tolerated(taint, toleration) for toleration in tolerations)
        for taint in taints
        if taint["effect"] in _FAR_TAINTS
    )


def _is_tolerated(taint: Mapping[str, str], toleration: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")


def fits(pod: Object, node: Object) -> bool:
    """Tell whether a pod's node selector and tolerations admit a node that has its devices, whatever is free there."""
    labels: dict[str, str] = node["metadata"]["labels"]
    selector: dict[str, str] = pod["spec"].get("nodeSelector", {})
    has: dict[str, str] = node["status"]["allocatable"]
    return (
        selector.items() <= labels.items()
        and tolerates(pod, node["spec"].get("taints", []))
        and all(requested(pod, device) <= int(has.get(device, 0)) for device in _devices(pod))
    )


def _devices(pod: Object) -> set[str]:
    """Return the extended resources of a pod: those with a domain in their name."""
    return {
        name
        for container in pod["spec"]["containers"]
        for name in container.get("resources", {}).get("limits", {})
        if "/" in name
    }


def nodes_to_add(pods: Sequence[Object], nodes: Sequence[Object], sample: Object, resource: str) -> int:
    """Return how many nodes like `sample` are missing for the waiting pods that ask for a resource.

    What fits onto nodes that are there is placed there first: the pods of a gang wait together although some have room.

    Args:
        pods: all pods of the cluster.
        nodes: the pool's nodes.
        sample: a node as a new one would be.
        resource: such as nvidia.com/gpu.
    """
    size = int(sample["status"]["allocatable"].get(resource, 0))
    free = [int(node["status"]["allocatable"].get(resource, 0)) - _used(node, pods, resource) for node in nodes]
    added: list[int] = []
    waiting = [pod for pod in pods if is_waiting(pod) and fits(pod, sample)]
    for need in sorted((requested(pod, resource) for pod in waiting), reverse=True):
        if not 0 < need <= size:
            continue
        place = next(((bins, index) for bins in (free, added) for index, room in enumerate(bins) if room >= need), None)
        if place is None:
            added.append(size - need)
        else:
            bins, index = place
            bins[index] -= need
    return len(added)


def _used(node: Object, pods: Sequence[Object], resource: str) -> int:
    return sum(
        requested(pod, resource)
        for pod in pods
        if pod["spec"].get("nodeName") == node["metadata"]["name"] and pod["status"].get("phase") not in _ENDED
    )
