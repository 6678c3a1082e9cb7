"""Read from a cluster what the questions are answered from: the only part here that asks anything."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tools.inspection.objects import Object, Snapshot
from tools.process import CommandError

if TYPE_CHECKING:
    from tools.inspection.containers import LogReference
    from tools.kubectl import Kubectl

_OWN = {
    "jobs": "jobs.batch.volcano.sh",
    "events": "events",
    "claims": "persistentvolumeclaims",
    "quotas": "resourcequotas",
    "deployments": "deployments.apps",
    "services": "services",
}
_EVERYWHERE = {"pods": "pods", "pod_groups": "podgroups.scheduling.volcano.sh"}
_OF_THE_CLUSTER = {
    "queues": "queues.scheduling.volcano.sh",
    "nodes": "nodes",
    "priority_classes": "priorityclasses.scheduling.k8s.io",
}
_TAIL_LINES = 5


def read(kubectl: Kubectl, namespace: str) -> Snapshot:
    """Return what the cluster says now.

    What this user may not read is left out and named in `unreadable`: a team of its own may have a role in one
    namespace only.

    Raises:
        CommandError: the cluster could not be asked.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        own = {field: pool.submit(kubectl.items, kind, namespace) for field, kind in _OWN.items()}
        wide = {
            field: pool.submit(_if_allowed, kubectl, kind, namespace if field in _EVERYWHERE else None)
            for field, kind in {**_EVERYWHERE, **_OF_THE_CLUSTER}.items()
        }
        found: dict[str, list[Object]] = {field: future.result() for field, future in own.items()}
        unreadable: list[str] = []
        for field, future in wide.items():
            found[field], refused = future.result()
            unreadable += [refused] if refused else []
    return Snapshot(namespace=namespace, **found, unreadable=tuple(unreadable))


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
    """Return the last lines of a container; none where its log is gone with the pod."""
    words = ["logs", log.pod, "-n", namespace, "-c", log.container, f"--tail={_TAIL_LINES}"]
    try:
        return kubectl.run(*words, *(["--previous"] if log.previous else [])).splitlines()
    except CommandError:
        return []
