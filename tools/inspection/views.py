"""The tables of `make status` and `make why`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.inspection import gpus, queues
from tools.inspection.containers import state_words
from tools.inspection.jobs import (
    job_phase,
    kind_of,
    logical_name,
    pod_group_of,
    pods_of,
    queue_of,
    roles_of,
    short_name,
)
from tools.inspection.objects import TASK, Object, Snapshot, age, has_ended, mark, name_of, node_of, phase_of
from tools.summary import pod_rows, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from tools.inspection.case import Case

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
    found = [table("Jobs", job_heads, job_rows(snapshot, now))]
    if services := service_rows(snapshot):
        found.append(table("Services", ["service", "ready", "address"], services))
    shown_in = {*platform_namespaces, snapshot.namespace}
    pods = [pod for pod in snapshot.pods if pod["metadata"].get("namespace", snapshot.namespace) in shown_in]
    listed, rest = _listed(pods)
    caption = f"{rest} more run or have ended as they should" if rest else None
    found.append(table("Pods", ["namespace", "pod", "state", "node", "restarts"], pod_rows(listed), caption))
    if rows := gpus.queue_rows(snapshot):
        found.append(table("GPUs by queue", ["queue", "resource", "used", "guaranteed", "deserved", "limit"], rows))
    if rows := gpus.node_rows(snapshot):
        found.append(table("GPUs by node", ["pool", "node", "resource", "used", "allocatable"], rows))
    return found


def _listed(pods: Sequence[Object]) -> tuple[list[Object], int]:
    if len(pods) <= MOST_PODS:
        return list(pods), 0
    odd = [pod for pod in pods if phase_of(pod) not in {"Running", "Succeeded"}][:MOST_PODS]
    return odd, len(pods) - len(odd)


def job_rows(snapshot: Snapshot, now: datetime) -> list[list[str]]:
    """Return a row per job, the newest last."""
    return [
        [
            logical_name(job),
            name_of(job),
            kind_of(job),
            job_phase(job),
            role_words(job, pods_of(snapshot, job)),
            queue_of(job),
            _priority(snapshot, job),
            str(job.get("status", {}).get("retryCount", 0)),
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
        words.append(f"{role.name} {role.running}/{role.wanted}" + (f" ({also})" if also else ""))
    return ", ".join(words)


def _priority(snapshot: Snapshot, job: Object) -> str:
    name = job["spec"].get("priorityClassName", "")
    value = queues.priority(snapshot, name)
    return f"{name} ({value})" if name else str(value)


def service_rows(snapshot: Snapshot) -> list[list[str]]:
    """Return a row per Deployment: its pods that are ready of those wanted, and the address of its Service."""
    rows: list[list[str]] = []
    for deployment in snapshot.deployments:
        labels: dict[str, str] = deployment["spec"]["template"]["metadata"].get("labels", {})
        urls = [url for each in snapshot.services if _serves(each, labels) for url in _urls(each)]
        status, wanted = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
        rows.append([name_of(deployment), f"{status.get('readyReplicas', 0)}/{wanted}", " ".join(urls) or "-"])
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


def why_tables(case: Case, now: datetime) -> list[Table]:
    """Return one job's state and its pods."""
    facts = [
        ["object", name_of(case.job)],
        ["kind", kind_of(case.job)],
        ["state", job_phase(case.job)],
        ["age", age(case.job["metadata"].get("creationTimestamp"), now)],
        ["restarts", f"{case.job.get('status', {}).get('retryCount', 0)} of {case.job['spec'].get('maxRetry', 3)}"],
        ["queue", _queue_words(case)],
        ["priority", _priority(case.snapshot, case.job)],
    ]
    pods = [
        [mark(pod, TASK), short_name(pod, case.job), state_words(pod), node_of(pod) or "-"] for pod in _worst(case.pods)
    ]
    rest = len(case.pods) - len(pods)
    caption = f"{rest} more" if rest else None
    return [
        table(f"Job {case.name}", ["what", "value"], facts),
        table("Its pods", ["role", "pod", "state", "node"], pods, caption),
    ]


def _worst(pods: Sequence[Object]) -> list[Object]:
    """Return the pods to list: all, or of very many those first that do not run."""
    order = {"Failed": 0, "Pending": 1, "Unknown": 1, "Running": 2, "Succeeded": 3}
    few = len(pods) <= MOST_PODS
    return list(pods) if few else sorted(pods, key=lambda pod: order.get(phase_of(pod), 1))[:MOST_PODS]


def _queue_words(case: Case) -> str:
    group = pod_group_of(case.snapshot, case.job)
    place = queues.position(case.snapshot, group) if group else None
    return f"{case.queue}, number {place[0]} of {place[1]} that wait" if place else case.queue


def unread_words(snapshot: Snapshot) -> str:
    """Say what is left out because it may not be read; empty if nothing is."""
    kinds = ", ".join(snapshot.unreadable)
    return f"Not shown, because this user may not read it: {kinds}." if kinds else ""
