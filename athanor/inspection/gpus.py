"""GPUs and their users, by node, by pool and by queue."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from athanor.inspection.objects import (
    Amounts,
    Object,
    Snapshot,
    added,
    amounts,
    formatted,
    has_ended,
    mark,
    name_of,
    node_of,
)
from infra.gpu.sharing import GPU_MEMORY_RESOURCE, GPU_RESOURCE, SHARED_GPU_RESOURCE, mig_resource
from infra.node_labels import POOL_LABEL
from infra.workload_labels import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_POOL = "-"
"""Name for the pool of a node with neither a pool nor a type."""
MOST_NODES = 20
"""Most GPU nodes that are listed; with more, their numbers are shown by pool."""
_GPU_RESOURCES = {GPU_RESOURCE, SHARED_GPU_RESOURCE, GPU_MEMORY_RESOURCE}


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, shares of GPUs or GPU memory."""
    return resource in _GPU_RESOURCES or resource.startswith(mig_resource(""))


def requests(spec: Object) -> Amounts:
    """Return the resources reserved for a pod: those of all its containers, or of its largest init container.

    Source: kubernetes.io, "Init Containers", resource sharing within containers; with sidecars and overhead.
    """
    together = added(_of(each) for each in spec.get("containers", []))
    sidecars = Amounts()
    largest = Amounts()
    for each in spec.get("initContainers", []):
        asked = added([_of(each), sidecars])
        if each.get("restartPolicy") == "Always":
            sidecars = asked
        for key, value in asked.items():
            largest[key] = max(largest[key], value)
    total = added([together, sidecars])
    for key, value in largest.items():
        total[key] = max(total[key], value)
    return added([total, amounts(spec.get("overhead"))])


def _of(container: Object) -> Amounts:
    resources = container.get("resources", {})
    # A limit without a request is the request; templates show it before the API server has filled it in.
    return amounts({**resources.get("limits", {}), **resources.get("requests", {})})


def holds(pod: Object) -> bool:
    """Whether a pod has its resources: bound to a node and not ended."""
    return bool(node_of(pod)) and not has_ended(pod)


def used_by_node(snapshot: Snapshot) -> dict[str, Amounts]:
    """Return the resources that pods hold, by node; every pod counts as one of `pods`."""
    held: defaultdict[str, list[Amounts]] = defaultdict(list)
    for pod in snapshot.pods:
        if holds(pod):
            held[node_of(pod)] += [requests(pod["spec"]), Amounts({"pods": Fraction(1)})]
    return {node: added(each) for node, each in held.items()}


def sees_all_pods(snapshot: Snapshot) -> bool:
    """Return whether the pods are those of every namespace."""
    return not {"pods", "pods of other namespaces"} & set(snapshot.unreadable)


def used_by_queue(snapshot: Snapshot) -> dict[str, Amounts]:
    """Return the resources that pods hold, by queue; Volcano's counts where other namespaces cannot be read."""
    if snapshot.queues and not sees_all_pods(snapshot):
        return {name_of(queue): amounts(queue.get("status", {}).get("allocated")) for queue in snapshot.queues}
    held: defaultdict[str, list[Amounts]] = defaultdict(list)
    for pod in snapshot.pods:
        if holds(pod) and (queue := mark(pod, QUEUE_LABEL)):
            held[queue].append(requests(pod["spec"]))
    return {queue: added(each) for queue, each in held.items()}


def allocatable(node: Object) -> Amounts:
    """Return the allocatable resources of a node."""
    return amounts(node.get("status", {}).get("allocatable"))


def pool_of(node: Object) -> str:
    """Return a node's pool; in a cluster without ours, its instance type."""
    return mark(node, POOL_LABEL) or mark(node, "node.kubernetes.io/instance-type") or NO_POOL


def queue_rows(snapshot: Snapshot) -> list[list[str]]:
    """Return a row per queue and kind of GPU: used, guaranteed, deserved, limit.

    Where queues cannot be read, the pods name those that they are in, and the limits stay unknown.
    """
    used = used_by_queue(snapshot)
    rows: list[list[str]] = []
    for queue in snapshot.queues or [{"metadata": {"name": name}, "spec": {}} for name in sorted(used)]:
        spec = queue["spec"]
        columns = [
            used.get(name_of(queue), Amounts()),
            amounts(spec.get("guarantee", {}).get("resource")),
            amounts(spec.get("deserved")),
            amounts(spec.get("capability")),
        ]
        kinds = {key for column in columns for key in column if is_gpu(key)}
        rows += [
            [
                name_of(queue),
                kind,
                formatted(columns[0][kind]),
                *(formatted(each[kind]) if kind in each else "-" for each in columns[1:]),
            ]
            for kind in sorted(kinds)
        ]
    return rows


def node_rows(snapshot: Snapshot) -> list[list[str]]:
    """Return a row per GPU node and kind of GPU: pool, node, kind, used / allocatable; by pool where nodes are many.

    Where nodes cannot be read, those are shown that the pods name.
    """
    if "nodes" in snapshot.unreadable:
        return _named_by_pods(snapshot)
    nodes = [node for node in snapshot.nodes if any(map(is_gpu, allocatable(node)))]
    if len(nodes) <= MOST_NODES:
        groups: dict[tuple[str, str], list[Object]] = {(pool_of(node), name_of(node)): [node] for node in nodes}
    else:
        by_pool: defaultdict[str, list[Object]] = defaultdict(list)
        for node in nodes:
            by_pool[pool_of(node)].append(node)
        groups = {(pool, f"{len(members)} nodes"): members for pool, members in by_pool.items()}
    used = used_by_node(snapshot)
    return [
        [pool, label, kind, formatted(taken[kind]), formatted(there[kind])]
        for (pool, label), members in sorted(groups.items())
        for there, taken in [_totals(members, used)]
        for kind in sorted(filter(is_gpu, there))
    ]


def _named_by_pods(snapshot: Snapshot) -> list[list[str]]:
    return [
        [NO_POOL, node, kind, formatted(taken[kind]), "-"]
        for node, taken in sorted(used_by_node(snapshot).items())
        for kind in sorted(filter(is_gpu, taken))
    ]


def _totals(nodes: Iterable[Object], used: dict[str, Amounts]) -> tuple[Amounts, Amounts]:
    members = list(nodes)
    return added(map(allocatable, members)), added(used.get(name_of(node), Amounts()) for node in members)
