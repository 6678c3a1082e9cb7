"""Reads the objects for a diagnosis from a cluster. No other module here sends requests."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from athanor.inspection.objects import JOB_NAME, JOBS, POD_GROUPS, Object, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

_OWN = {
    "jobs": (JOBS, "Job"),
    "events": ("events", "Event"),
    "claims": ("persistentvolumeclaims", "PersistentVolumeClaim"),
    "quotas": ("resourcequotas", "ResourceQuota"),
    "deployments": ("deployments.apps", "Deployment"),
    "services": ("services", "Service"),
}
"""Resource, as kubectl spells it, and kind of what is read of the namespace, by the snapshot's fields."""
_EVERYWHERE = {"pods": ("pods", "Pod"), "pod_groups": (POD_GROUPS, "PodGroup")}
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
    """Exception that both raise."""


def read(cluster: Asked, namespace: str) -> Snapshot:
    """Return the present state of the cluster.

    What this user may not read outside of the namespace is left out and named in `unreadable`: a team of its own may
    have a role in one namespace only. `cluster.failure` is raised where the cluster could not be asked, or refuses to
    say what is in the namespace.
    """
    return _read(cluster, namespace, _OWN, {**_EVERYWHERE, **_OF_THE_CLUSTER}, must=namespace)


def read_for_status(cluster: Asked, namespace: str) -> Snapshot:
    """Return the state for the tables; as `read`, but what may not be read of the namespace itself is left out, too."""
    own = {field: _OWN[field] for field in ("jobs", "deployments", "services")}
    return _read(cluster, namespace, own, {"pods": _EVERYWHERE["pods"], **_OF_THE_CLUSTER}, must=None)


def _read(cluster: Asked, namespace: str, own: _Kinds, wide: _Kinds, *, must: str | None) -> Snapshot:
    with ThreadPoolExecutor(max_workers=2) as pool:
        asked = [pool.submit(_at_once, cluster, own, namespace), pool.submit(_at_once, cluster, wide, None)]
        answers = [future.result() for future in asked]
    objects: dict[str, list[Object]] = {}
    refused: list[str] = []
    for kinds, answer in zip((own, wide), answers, strict=True):
        by_field, unreadable = _one_by_one(cluster, kinds, namespace, must) if answer is None else (answer, [])
        objects.update(by_field)
        refused += unreadable
    return Snapshot(namespace=namespace, **objects, unreadable=tuple(refused))


def read_line(cluster: Asked, namespace: str) -> Snapshot:
    """Return who waits, and with which priority: all that a place in a queue depends on; otherwise as `read`."""
    kinds = {"pod_groups": _EVERYWHERE["pod_groups"], "priority_classes": _OF_THE_CLUSTER["priority_classes"]}
    objects, refused = _one_by_one(cluster, kinds, namespace, namespace)
    return Snapshot(namespace=namespace, **objects, unreadable=tuple(refused))


def _at_once(cluster: Asked, kinds: _Kinds, namespace: str | None) -> dict[str, list[Object]] | None:
    """Return several kinds by one kubectl, whose start costs more than any answer; None if one was refused."""
    resources = ",".join(resource for resource, _ in kinds.values())
    try:
        items = cluster.items(resources, namespace)
    except cluster.failure:
        return None
    return {field: [each for each in items if each["kind"] == kind] for field, (_, kind) in kinds.items()}


def _one_by_one(
    cluster: Asked, kinds: _Kinds, namespace: str, must: str | None
) -> tuple[dict[str, list[Object]], list[str]]:
    """Return each kind as far as it may be read, and what may not be; a refusal in the namespace `must` is raised."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = {
            field: pool.submit(_readable, cluster, resource, _places(field, namespace), must)
            for field, (resource, _) in kinds.items()
        }
        answers = {field: future.result() for field, future in asked.items()}
    return {field: items for field, (items, _) in answers.items()}, [words for _, words in answers.values() if words]


def _places(field: str, namespace: str) -> tuple[str | None, ...]:
    """Return where a kind is looked for, as far as it may be read there: None is everywhere."""
    if field in _OWN:
        return (namespace,)
    return (None, namespace) if field in _EVERYWHERE else (None,)


def _readable(cluster: Asked, kind: str, places: tuple[str | None, ...], must: str | None) -> tuple[list[Object], str]:
    """Return a kind's objects from the first place where they may be read, and what may not be read."""
    plain, refused = kind.split(".", maxsplit=1)[0], ""
    for place in places:
        try:
            return cluster.items(kind, place), refused
        except cluster.failure as error:
            if "(Forbidden)" not in str(error) or (must is not None and place == must):
                raise
        refused = plain if place == places[-1] else f"{plain} of other namespaces"
    return [], refused


def pods_of_run(items: Items, namespace: str, job_name: str, uid: str) -> list[Object]:
    """Return the pods that there are of one run of a job."""
    pods = items("pods", namespace, f"{JOB_NAME}={job_name}")
    return [pod for pod in pods if uid in {owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])}]
