"""Read from a cluster what the questions are answered from: the only part here that asks anything."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from athanor.inspection.objects import JOB_NAME, JOBS, Object, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OWN = {
    "jobs": (JOBS, "Job"),
    "events": ("events", "Event"),
    "claims": ("persistentvolumeclaims", "PersistentVolumeClaim"),
    "quotas": ("resourcequotas", "ResourceQuota"),
    "deployments": ("deployments.apps", "Deployment"),
    "services": ("services", "Service"),
}
"""Resource, as kubectl spells it, and kind of what is read of the namespace, by the snapshot's fields."""
_EVERYWHERE = {"pods": ("pods", "Pod"), "pod_groups": ("podgroups.scheduling.volcano.sh", "PodGroup")}
_OF_THE_CLUSTER = {
    "queues": ("queues.scheduling.volcano.sh", "Queue"),
    "nodes": ("nodes", "Node"),
    "priority_classes": ("priorityclasses.scheduling.k8s.io", "PriorityClass"),
}
_Kinds = Mapping[str, tuple[str, str]]


class Items(Protocol):
    """Asks for the objects of a kind, or of several with commas; those of every namespace if none is named.

    It raises one kind of exception, whose text has what the API server said.
    """

    def __call__(self, kind: str, namespace: str | None, selector: str = "", /) -> list[Object]:
        """Return the objects, empty if the cluster does not know the kind (of several, it must know all)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A cluster that can be asked."""

    run: Callable[..., str]
    """Runs kubectl with some words and returns its output."""
    items: Items
    failure: type[Exception]
    """What both raise."""


def read(cluster: Asked, namespace: str) -> Snapshot:
    """Return what the cluster says now.

    What this user may not read is left out and named in `unreadable`: a team of its own may have a role in one
    namespace only. `cluster.failure` is raised where the cluster could not be asked.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        own = pool.submit(_at_once, cluster, _OWN, namespace)
        wide = pool.submit(_at_once, cluster, {**_EVERYWHERE, **_OF_THE_CLUSTER}, None)
        if (of_namespace := own.result()) is not None and (of_cluster := wide.result()) is not None:
            return Snapshot(namespace=namespace, unreadable=(), **of_namespace, **of_cluster)
    return _one_by_one(cluster, namespace)


def read_line(cluster: Asked, namespace: str) -> Snapshot:
    """Return who waits, and with which priority: all that a place in a queue depends on; otherwise as `read`."""
    kinds = {"pod_groups": namespace, "priority_classes": None}
    resources = {field: ({**_EVERYWHERE, **_OF_THE_CLUSTER})[field][0] for field in kinds}
    with ThreadPoolExecutor(max_workers=2) as pool:
        asked = {field: pool.submit(_if_allowed, cluster, resources[field], kinds[field]) for field in kinds}
        answers = {field: future.result() for field, future in asked.items()}
    refused = tuple(words for _, words in answers.values() if words)
    return Snapshot(namespace=namespace, **{field: items for field, (items, _) in answers.items()}, unreadable=refused)


def _at_once(cluster: Asked, kinds: _Kinds, namespace: str | None) -> dict[str, list[Object]] | None:
    """Return several kinds by one kubectl, whose start costs more than any answer; None if one was refused."""
    resources = ",".join(resource for resource, _ in kinds.values())
    try:
        items = cluster.items(resources, namespace)
    except cluster.failure:
        return None
    return {field: [each for each in items if each["kind"] == kind] for field, (_, kind) in kinds.items()}


def _one_by_one(cluster: Asked, namespace: str) -> Snapshot:
    with ThreadPoolExecutor(max_workers=4) as pool:
        own = {field: pool.submit(cluster.items, resource, namespace) for field, (resource, _) in _OWN.items()}
        wide = {
            field: pool.submit(_if_allowed, cluster, resource, namespace if field in _EVERYWHERE else None)
            for field, (resource, _) in {**_EVERYWHERE, **_OF_THE_CLUSTER}.items()
        }
        objects: dict[str, Sequence[Object]] = {field: future.result() for field, future in own.items()}
        unreadable: list[str] = []
        for field, future in wide.items():
            objects[field], refused = future.result()
            unreadable += [refused] if refused else []
    return Snapshot(namespace=namespace, **objects, unreadable=tuple(unreadable))


def _if_allowed(cluster: Asked, kind: str, fallback: str | None) -> tuple[list[Object], str]:
    """Return a kind's objects everywhere, else those of the namespace `fallback`; and what could not be read."""
    try:
        return cluster.items(kind, None), ""
    except cluster.failure as error:
        if "(Forbidden)" not in str(error):
            raise
    plain = kind.split(".", maxsplit=1)[0]
    if fallback is None:
        return [], plain
    return cluster.items(kind, fallback), f"{plain} of other namespaces"


def pods_of_run(items: Items, namespace: str, job_name: str, uid: str) -> list[Object]:
    """Return the pods that there are of one run of a job."""
    pods = items("pods", namespace, f"{JOB_NAME}={job_name}")
    return [pod for pod in pods if uid in {owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])}]
