"""`athanor status`: the workloads of a namespace and the users of GPUs, as far as the user's rights allow."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from athanor.inspection import gpus
from athanor.inspection.columns import columns
from athanor.inspection.control_characters import printable
from athanor.inspection.jobs import job_phase, kind_of, logical_name, pods_of, queue_of, restarts, roles_of
from athanor.inspection.objects import name_of, node_of, unread_words
from athanor.inspection.reader import read_for_status
from athanor.inspection.status import jobs_by_age, pod_restarts, pod_state, ready_pods, status, urls_of
from athanor.runs.cluster import Cluster
from athanor.runs.ending import exit_status

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from athanor.inspection.objects import Object, Snapshot

_NOT_KNOWN = "-"


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    return exit_status("status", lambda: _run(arguments), as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    cluster = Cluster.of(arguments)
    show(cluster if arguments.namespace else cluster.within(cluster.platform().namespace), as_json=arguments.json)
    return 0


def show(cluster: Cluster, *, as_json: bool) -> None:
    """Print what runs in the namespace of a cluster.

    Raises:
        RefusalError: the cluster does not answer.
    """
    snapshot = read_for_status(cluster.asked, cluster.namespace)
    if as_json:
        sys.stdout.write(json.dumps(fields(snapshot)) + "\n")
        return
    sys.stdout.write("\n".join(view(snapshot, datetime.now(UTC))) + "\n")
    if words := unread_words(snapshot):
        sys.stderr.write(f"{words}\n")


def view(snapshot: Snapshot, now: datetime) -> list[str]:
    """Return the lines for a terminal: tables under their titles, with an empty line between two."""
    lines: list[str] = []
    for part in status(snapshot, now):
        rows = [[heading.upper() for heading in part.headings], *([printable(c) for c in row] for row in part.rows)]
        table = columns(rows) if part.rows else ["none"]
        lines += ["", part.title, *table, *([part.caption] if part.caption else [])]
    return lines[1:]


def fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the object that --json prints; null for what may not be read."""
    unread = snapshot.unreadable
    own_pods = [each for each in snapshot.pods if each["metadata"].get("namespace") in {None, snapshot.namespace}]
    queue_keys = ("queue", "resource", "used", "guaranteed", "deserved", "limit")
    node_keys = ("pool", "node", "resource", "used", "allocatable")
    return {
        "namespace": snapshot.namespace,
        "jobs": None if "jobs" in unread else [_job(snapshot, each) for each in jobs_by_age(snapshot)],
        "services": None if "deployments" in unread else [_service(snapshot, each) for each in snapshot.deployments],
        "pods": None if "pods" in unread else [_pod(each) for each in own_pods],
        "gpus_by_queue": [_numbers(queue_keys, row) for row in gpus.queue_rows(snapshot)],
        "gpus_by_node": [_numbers(node_keys, row) for row in gpus.node_rows(snapshot)],
        "unreadable": list(unread),
    }


def _job(snapshot: Snapshot, job: Object) -> dict[str, Any]:
    sees_pods = "pods" not in snapshot.unreadable
    return {
        "job": logical_name(job),
        "object": name_of(job),
        "kind": kind_of(job),
        "state": job_phase(job),
        "roles": [
            {"role": role.name, "running": role.running if sees_pods else None, "replicas": role.replicas}
            for role in roles_of(job, pods_of(snapshot, job))
        ],
        "queue": queue_of(job),
        "priority_class": job["spec"].get("priorityClassName") or None,
        "restarts": restarts(job)[0],
        "created": job["metadata"].get("creationTimestamp"),
    }


def _service(snapshot: Snapshot, deployment: Object) -> dict[str, Any]:
    ready, replicas = ready_pods(deployment)
    addresses = None if "services" in snapshot.unreadable else urls_of(snapshot, deployment)
    return {"service": name_of(deployment), "ready": ready, "replicas": replicas, "addresses": addresses}


def _pod(pod: Object) -> dict[str, Any]:
    return {
        "pod": name_of(pod), "state": pod_state(pod), "node": node_of(pod) or None, "restarts": pod_restarts(pod)
    }  # fmt: skip


def _numbers(keys: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """Return a row of GPUs by its keys: from "used" on they are numbers; null where there is none."""
    first = keys.index("used")
    values = [json.loads(cell) if place >= first and cell != _NOT_KNOWN else cell for place, cell in enumerate(row)]
    return {key: None if value == _NOT_KNOWN else value for key, value in zip(keys, values, strict=True)}
