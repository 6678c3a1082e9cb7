"""What runs where: the tables of `make status`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from athanor.inspection import gpus, queues
from athanor.inspection.jobs import (
    job_phase,
    kind_of,
    logical_name,
    pods_of,
    queue_of,
    restarts,
    roles_of,
)
from athanor.inspection.objects import Object, Snapshot, age, has_ended, name_of, phase_of
from tools.tables import Cell, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.table import Table

MOST_PODS = 100
"""With more pods those that run as they should are counted, not listed."""


def status_tables(snapshot: Snapshot, now: datetime, platform_namespaces: Sequence[str] = ()) -> list[Table]:
    """Return what runs where: jobs, services, pods, GPUs by queue and by node.

    Args:
        snapshot: What the cluster said.
        now: The time that ages are counted from.
        platform_namespaces: Namespaces of the platform's own parts whose pods are listed, too.
    """
    job_heads = ["job", "object", "kind", "state", "running", "queue", "priority", "restarts", "age"]
    tables = [table("Jobs", job_heads, job_rows(snapshot, now))]
    if services := service_rows(snapshot):
        tables.append(table("Services", ["service", "ready", "address"], services))
    shown_in = {*platform_namespaces, snapshot.namespace}
    pods = [pod for pod in snapshot.pods if pod["metadata"].get("namespace", snapshot.namespace) in shown_in]
    listed, rest = _listed(pods)
    caption = f"{rest} more are running or have ended normally" if rest else None
    tables.append(table("Pods", ["namespace", "pod", "state", "node", "restarts"], pod_rows(listed), caption))
    if rows := gpus.queue_rows(snapshot):
        tables.append(table("GPUs by queue", ["queue", "resource", "used", "guaranteed", "deserved", "limit"], rows))
    if rows := gpus.node_rows(snapshot):
        tables.append(table("GPUs by node", ["pool", "node", "resource", "used", "allocatable"], rows))
    return tables


def _listed(pods: Sequence[Object]) -> tuple[list[Object], int]:
    if len(pods) <= MOST_PODS:
        return list(pods), 0
    odd = [pod for pod in pods if phase_of(pod) not in {"Running", "Succeeded"}][:MOST_PODS]
    return odd, len(pods) - len(odd)


def job_rows(snapshot: Snapshot, now: datetime) -> list[list[str]]:
    """Return a row per job, the latest last."""
    return [
        [
            logical_name(job),
            name_of(job),
            kind_of(job),
            job_phase(job),
            role_words(job, pods_of(snapshot, job)),
            queue_of(job),
            priority_words(snapshot, job),
            str(restarts(job)[0]),
            age(job["metadata"].get("creationTimestamp"), now),
        ]
        for job in sorted(snapshot.jobs, key=lambda job: job["metadata"].get("creationTimestamp", ""))
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
    """Return a job's priority class with its value, or the value that jobs without a class have."""
    name = job["spec"].get("priorityClassName", "")
    value = queues.priority(snapshot, name)
    return f"{name} ({value})" if name else str(value)


def service_rows(snapshot: Snapshot) -> list[list[str]]:
    """Return a row per Deployment: its pods that are ready of those wanted, and the address of its Service."""
    rows: list[list[str]] = []
    for deployment in snapshot.deployments:
        labels: dict[str, str] = deployment["spec"]["template"]["metadata"].get("labels", {})
        urls = [url for each in snapshot.services if _serves(each, labels) for url in _urls(each)]
        status, replicas = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
        rows.append([name_of(deployment), f"{status.get('readyReplicas', 0)}/{replicas}", " ".join(urls) or "-"])
    return rows


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


def pod_rows(pods: Iterable[Object]) -> list[list[Cell]]:
    """Return a row per pod: namespace, name, phase, node, restarts."""
    return [
        [
            pod["metadata"].get("namespace", "-"),
            pod["metadata"]["name"],
            _phase(pod),
            pod["spec"].get("nodeName", "-"),
            str(_restarts(pod)),
        ]
        for pod in pods
    ]


def _phase(pod: Object) -> Cell:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    phase: str = pod["status"].get("phase", "Unknown")
    if phase == "Running":
        return Text("Ready", "green") if ready else Text("Running, not ready", "yellow")
    return phase


def _restarts(pod: Object) -> int:
    return sum(container.get("restartCount", 0) for container in pod["status"].get("containerStatuses", []))
