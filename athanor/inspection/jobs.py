"""Volcano Jobs by name, with their roles and their pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.inspection.objects import TASK, Object, Snapshot, mark, name_of, node_of, phase_of
from infra.errors import RefusalError, choices
from infra.workload_labels import JOB_LABEL, KIND_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDED = {"Completed", "Failed", "Aborted"}
"""Phases of a Job from which it does not continue by itself (Volcano, pkg/controllers/job/state)."""


@dataclass(frozen=True, kw_only=True)
class Role:
    """One task of a Volcano Job and how its pods do."""

    name: str
    replicas: int
    """Number of its pods, once all are created."""
    minimum: int
    """Pods without which the job does not start."""
    pods: Sequence[Object]
    template: Object
    """The spec of its pods, known before there are any."""

    @property
    def running(self) -> int:
        """Pods that run."""
        return sum(phase_of(pod) == "Running" for pod in self.pods)

    @property
    def waiting(self) -> int:
        """Pods without a node, whether they exist or not: those it cannot start without, else those it could have."""
        placed = sum(bool(node_of(pod)) for pod in self.pods)
        return max(0, (self.minimum if placed < self.minimum else self.replicas) - placed)


def logical_name(job: Object) -> str:
    """Return the name that the program gave a job; of jobs that others made, the object's own."""
    return mark(job, JOB_LABEL) or name_of(job)


def kind_of(job: Object) -> str:
    """Return which of the program's classes made a job; `Job` where the object does not tell."""
    return mark(job, KIND_LABEL) or "Job"


def job_phase(job: Object) -> str:
    """Return a Job's phase: `accepted` until Volcano's controller has looked at it."""
    return phase_word(job.get("status", {}).get("state", {}).get("phase") or "accepted")


def phase_word(phase: str) -> str:
    """Return our word for a phase of Volcano's.

    A job of several pods that its policies end because its program failed (workloads/restarts.py) is Terminated in
    Volcano's words.
    """
    return "Failed" if phase == "Terminated" else phase


def since(job: Object) -> str | None:
    """Return when a Job came into its phase."""
    return job.get("status", {}).get("state", {}).get("lastTransitionTime")


def restarts(job: Object) -> tuple[int, int]:
    """Return how often a Job has started again, and how often it may.

    Volcano counts the failures in `retryCount` and ends the job at as many as `maxRetry`, so the last is not a restart
    (pkg/controllers/job/state/restarting.go).
    """
    most = max(1, job["spec"].get("maxRetry", 3)) - 1
    return min(job.get("status", {}).get("retryCount", 0), most), most


def queue_of(job: Object) -> str:
    """Return the name of a Job's queue."""
    return job["spec"].get("queue", "default")


def find_job(snapshot: Snapshot, name: str) -> Object:
    """Return the job of that name in the program, or that name in the cluster; of several the latest.

    Raises:
        RefusalError: there is none; the message names the near ones.
    """
    jobs = sorted(snapshot.jobs, key=lambda job: job["metadata"].get("creationTimestamp", ""))
    for matches in (logical_name, name_of):
        matching = [job for job in jobs if matches(job) == name]
        if matching:
            return matching[-1]
    limit = (
        f"namespace {snapshot.namespace!r} has no such job: it is not accepted yet (an update is still running or"
        " failed), or it ended and was cleaned up"
    )
    raise RefusalError("JOB", name, limit, choices(name, {logical_name(job) for job in jobs}))


def pods_of(snapshot: Snapshot, job: Object) -> list[Object]:
    """Return a job's pods in the order of roles and indices."""
    order = {task["name"]: place for place, task in enumerate(job["spec"]["tasks"])}
    mine = snapshot.pods_by_job.get(name_of(job), [])
    return sorted(mine, key=lambda pod: (order.get(mark(pod, TASK), len(order)), _index(pod)))


def _index(pod: Object) -> int:
    last = name_of(pod).rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def short_name(pod: Object, job: Object) -> str:
    """Return `worker-0` for the pod `my-run-0a1b2c3d-worker-0`."""
    return name_of(pod).removeprefix(f"{name_of(job)}-")


def roles_of(job: Object, pods: Sequence[Object]) -> list[Role]:
    """Return a job's roles with their pods."""
    tasks = job["spec"]["tasks"]
    # With one role the job's own minimum says the same as the role's; with more it counts pods of any.
    default = {"minAvailable": job["spec"]["minAvailable"]} if len(tasks) == 1 and "minAvailable" in job["spec"] else {}
    return [
        Role(
            name=task["name"],
            replicas=task["replicas"],
            minimum={**default, **task}.get("minAvailable", task["replicas"]),
            pods=[pod for pod in pods if mark(pod, TASK) == task["name"]],
            template=task["template"]["spec"],
        )
        for task in tasks
    ]


def pod_group_name(job: Object) -> str:
    """Return the name of a job's PodGroup (Volcano, pkg/controllers/job/job_controller_actions.go)."""
    return f"{name_of(job)}-{job['metadata'].get('uid', '')}"


def pod_group_of(snapshot: Snapshot, job: Object) -> Object | None:
    """Return a job's PodGroup; there is none before Volcano's controller makes it and after the job has ended."""
    name = pod_group_name(job)
    return next((group for group in snapshot.pod_groups if name_of(group) == name), None)


def is_overlooked(job: Object, group: Object | None, pods: Sequence[Object]) -> bool:
    """Return whether nobody creates the pods of a job that the scheduler has admitted; see athanor/runs/overlooked.py.

    For a moment, while the controller is about to, it is true of every job.
    """
    return job_phase(job) == "Pending" and group is not None and phase_of(group) == "Inqueue" and not pods
