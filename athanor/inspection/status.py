"""Running jobs and services as tables of text, for `make status` and `athanor status`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.inspection import gpus, queues
from athanor.inspection.jobs import job_phase, kind_of, logical_name, pods_of, queue_of, restarts, roles_of
from athanor.inspection.objects import Object, Snapshot, age, has_ended, name_of, node_of, phase_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

MOST_PODS = 100
"""Most pods that are all listed; with more, healthy ones are only counted."""
READY, NOT_READY = "Ready", "Running, not ready"
"""States of pods that run."""
PODS = "Pods"
"""Title of the table of pods."""
_UNKNOWN = "-"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One table."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    """Text below it."""


def status(snapshot: Snapshot, now: datetime, platform_namespaces: Sequence[str] = ()) -> list[Part]:
    """Return the tables of the status: jobs, services, pods, GPUs by queue and by node.

    Args:
        snapshot: What the cluster said; what it says nothing of is left out.
        now: The time that ages are counted from.
        platform_namespaces: Namespaces of the platform's own parts whose pods are listed, too.
    """
    job_headings = ["job", "object", "kind", "state", "running", "queue", "priority", "restarts", "age"]
    parts: list[Part] = []
    if "jobs" not in snapshot.unreadable:
        parts.append(Part(title="Jobs", headings=job_headings, rows=job_rows(snapshot, now)))
    if services := service_rows(snapshot):
        parts.append(Part(title="Services", headings=["service", "ready", "address"], rows=services))
    if "pods" not in snapshot.unreadable:
        parts.append(_pods(snapshot, platform_namespaces))
    of = "" if gpus.sees_all_pods(snapshot) else ", as far as this namespace's pods use them"
    if rows := gpus.queue_rows(snapshot):
        title = "GPUs by queue" + ("" if snapshot.queues else of)
        headings = ["queue", "resource", "used", "guaranteed", "deserved", "limit"]
        parts.append(Part(title=title, headings=headings, rows=rows))
    if rows := gpus.node_rows(snapshot):
        headings = ["pool", "node", "resource", "used", "allocatable"]
        parts.append(Part(title=f"GPUs by node{of}", headings=headings, rows=rows))
    return parts


def _pods(snapshot: Snapshot, platform_namespaces: Sequence[str]) -> Part:
    listed, rest = listed_pods(snapshot, platform_namespaces)
    caption = f"{rest} more are running or have ended normally" if rest else ""
    headings = ["namespace", "pod", "state", "node", "restarts"]
    return Part(title=PODS, headings=headings, rows=pod_rows(listed), caption=caption)


def listed_pods(snapshot: Snapshot, platform_namespaces: Sequence[str] = ()) -> tuple[list[Object], int]:
    """Return the pods that are worth a row, and how many others there are."""
    shown_in = {*platform_namespaces, snapshot.namespace}
    pods = [pod for pod in snapshot.pods if pod["metadata"].get("namespace", snapshot.namespace) in shown_in]
    if len(pods) <= MOST_PODS:
        return pods, 0
    odd = [pod for pod in pods if phase_of(pod) not in {"Running", "Succeeded"}][:MOST_PODS]
    return odd, len(pods) - len(odd)


def jobs_by_age(snapshot: Snapshot) -> list[Object]:
    """Return the jobs, the latest last."""
    return sorted(snapshot.jobs, key=lambda job: job["metadata"].get("creationTimestamp", ""))


def job_rows(snapshot: Snapshot, now: datetime) -> list[list[str]]:
    """Return a row per job, the latest last."""
    return [
        [
            logical_name(job),
            name_of(job),
            kind_of(job),
            job_phase(job),
            _UNKNOWN if "pods" in snapshot.unreadable else role_words(job, pods_of(snapshot, job)),
            queue_of(job),
            priority_words(snapshot, job),
            str(restarts(job)[0]),
            age(job["metadata"].get("creationTimestamp"), now),
        ]
        for job in jobs_by_age(snapshot)
    ]


def role_words(job: Object, pods: Sequence[Object]) -> str:
    """Return how the roles do: `launcher 1/1, worker 1/2 (1 failed)`.

    Counted from the pods, because Volcano's own counts are gone from the status once a job has completed.
    """
    words: list[str] = []
    for role in roles_of(job, pods):
        ended = Counter(phase_of(pod).lower() for pod in role.pods if has_ended(pod))
        also = ", ".join(f"{number} {phase}" for phase, number in sorted(ended.items()))
        words.append(f"{role.name} {role.running}/{role.replicas}" + (f" ({also})" if also else ""))
    return ", ".join(words)


def priority_words(snapshot: Snapshot, job: Object) -> str:
    """Return a job's priority class with its value, or the value that jobs without a class have, as far as known."""
    name = job["spec"].get("priorityClassName", "")
    if "priorityclasses" in snapshot.unreadable:
        return name or _UNKNOWN
    value = queues.priority(snapshot, name)
    return f"{name} ({value})" if name else str(value)


def service_rows(snapshot: Snapshot) -> list[list[str]]:
    """Return a row per Deployment: its pods that are ready of those wanted, and the address of its Service."""
    return [
        [name_of(each), "{}/{}".format(*ready_pods(each)), " ".join(urls_of(snapshot, each)) or _UNKNOWN]
        for each in snapshot.deployments
    ]


def ready_pods(deployment: Object) -> tuple[int, int]:
    """Return how many pods of a Deployment are ready, and how many it shall have."""
    return deployment.get("status", {}).get("readyReplicas", 0), deployment["spec"].get("replicas", 1)


def urls_of(snapshot: Snapshot, deployment: Object) -> list[str]:
    """Return the addresses, within the cluster, of the Services that lead to a Deployment's pods."""
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"].get("labels", {})
    return [url for each in snapshot.services if _serves(each, labels) for url in _urls(each)]


def _serves(service: Object, labels: dict[str, str]) -> bool:
    selector: dict[str, str] = service["spec"].get("selector") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _urls(service: Object) -> list[str]:
    host = f"{name_of(service)}.{service['metadata'].get('namespace', 'default')}.svc"
    return [
        f"http://{host}:{port['port']}"
        for port in service["spec"].get("ports", [])
        if port.get("name", "http") in {"http", "https"}
    ]


def pod_rows(pods: Iterable[Object]) -> list[list[str]]:
    """Return a row per pod: namespace, name, state, node, restarts."""
    return [
        [
            pod["metadata"].get("namespace", _UNKNOWN),
            name_of(pod),
            pod_state(pod),
            node_of(pod) or _UNKNOWN,
            str(pod_restarts(pod)),
        ]
        for pod in pods
    ]


def pod_state(pod: Object) -> str:
    """Return a pod's phase, and of one that runs whether it is ready."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    phase = phase_of(pod) or "Unknown"
    if phase != "Running":
        return phase
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    return READY if ready else NOT_READY


def pod_restarts(pod: Object) -> int:
    """Return how often a pod's containers have started again."""
    return sum(container.get("restartCount", 0) for container in pod.get("status", {}).get("containerStatuses", []))
