"""Read from a cluster what the questions are answered from: the only part here that asks anything."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tools.operations.last_words import last_words
from tools.operations.log_lines import readable
from tools.operations.objects import Object, Snapshot
from tools.process import CommandError

if TYPE_CHECKING:
    from tools.kubectl import Kubectl
    from tools.operations.containers import LogReference

_OWN = {
    "jobs": ("jobs.batch.volcano.sh", "Job"),
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
_TAIL_LINES = 400
"""What is looked through for the last error: behind it stand the reports of torchrun and of other ranks."""


def read(kubectl: Kubectl, namespace: str) -> Snapshot:
    """Return what the cluster says now.

    What this user may not read is left out and named in `unreadable`: a team of its own may have a role in one
    namespace only.

    Raises:
        CommandError: the cluster could not be asked.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        own = pool.submit(_at_once, kubectl, _OWN, namespace)
        wide = pool.submit(_at_once, kubectl, {**_EVERYWHERE, **_OF_THE_CLUSTER}, None)
        if (of_namespace := own.result()) is not None and (of_cluster := wide.result()) is not None:
            return Snapshot(namespace=namespace, unreadable=(), **of_namespace, **of_cluster)
    return _one_by_one(kubectl, namespace)


def _at_once(kubectl: Kubectl, kinds: _Kinds, namespace: str | None) -> dict[str, list[Object]] | None:
    """Return several kinds by one kubectl, whose start costs more than any answer; None if one was refused."""
    resources = ",".join(resource for resource, _ in kinds.values())
    try:
        items = kubectl.items(resources, namespace)
    except CommandError:
        return None
    return {field: [each for each in items if each["kind"] == kind] for field, (_, kind) in kinds.items()}


def _one_by_one(kubectl: Kubectl, namespace: str) -> Snapshot:
    with ThreadPoolExecutor(max_workers=4) as pool:
        own = {field: pool.submit(kubectl.items, resource, namespace) for field, (resource, _) in _OWN.items()}
        wide = {
            field: pool.submit(_if_allowed, kubectl, resource, namespace if field in _EVERYWHERE else None)
            for field, (resource, _) in {**_EVERYWHERE, **_OF_THE_CLUSTER}.items()
        }
        objects: dict[str, list[Object]] = {field: future.result() for field, future in own.items()}
        unreadable: list[str] = []
        for field, future in wide.items():
            objects[field], refused = future.result()
            unreadable += [refused] if refused else []
    return Snapshot(namespace=namespace, **objects, unreadable=tuple(unreadable))


def _if_allowed(kubectl: Kubectl, kind: str, fallback: str | None) -> tuple[list[Object], str]:
    """Return a kind's objects everywhere, else those of the namespace `fallback`; and what could not be read."""
    try:
        return kubectl.items(kind, None), ""
    except CommandError as error:
        if "(Forbidden)" not in error.output:
            raise
    plain = kind.split(".", maxsplit=1)[0]
    if fallback is None:
        return [], plain
    return kubectl.items(kind, fallback), f"{plain} of other namespaces"


def last_lines(kubectl: Kubectl, namespace: str, log: LogReference) -> list[str]:
    """Return what a container said last of why it ended, for people; nothing where its log is gone with the pod."""
    words = ["logs", log.pod, "-n", namespace, "-c", log.container, f"--tail={_TAIL_LINES}"]
    try:
        said = kubectl.run(*words, *(["--previous"] if log.previous else []))
    except CommandError:
        return []
    lines = [readable(line.encode()).decode() for line in said.removesuffix("\n").split("\n")]
    return last_words([part for line in lines for part in line.split("\n")]) if said else []
