"""Estimate of when a waiting job can start, from the expected ends of the running jobs, in queue order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from athanor.inspection.gpus import holds
from athanor.inspection.jobs import job_phase, logical_name, pods_of, restarts
from athanor.inspection.objects import JOB_NAME, mark, moment, name_of
from athanor.inspection.why_no_node import ahead_of, no_room, queue_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from athanor.inspection.case import Case
    from athanor.inspection.objects import Object, Snapshot

DEADLINE, STEPS = "deadline", "steps left"
_SHORT = {"gang", "no-room", "queue-limit", "enqueue"}
"""Causes that end when others free what they hold."""
_WAITING = {*_SHORT, "quota", "behind", "unschedulable", "scheduler"}


@dataclass(frozen=True, kw_only=True)
class End:
    """The expected end of a running job."""

    job: str
    """Name of its object, in the namespace that is asked about."""
    name: str
    """Its name in the program."""
    at: datetime
    by: str
    """DEADLINE, at the latest, or STEPS, at the pace of its last lines."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The estimated start of a job."""

    ends: Sequence[End]
    """Expected ends of running jobs, the earliest first."""
    at: datetime | None
    """Time when enough of them have ended for the whole job; None if that is not known."""
    after: Sequence[str]
    """The names of those."""
    latest: bool
    """Whether one of these ends is a deadline, so that `at` is the latest time."""
    ahead: int
    """Jobs that wait in the queue and come first: they may take what becomes free."""


def running_jobs(snapshot: Snapshot) -> list[Object]:
    """Return the jobs of the namespace that hold something."""
    return [job for job in snapshot.jobs if any(holds(pod) for pod in pods_of(snapshot, job))]


def deadline(snapshot: Snapshot, job: Object) -> End | None:
    """Return when a job has ended at the latest: its pods' deadlines, and as many more as it may start again."""
    ends = [_pod_deadline(pod) for pod in pods_of(snapshot, job) if holds(pod)]
    known = [each for each in ends if each is not None]
    if not known or len(known) < len(ends) or job_phase(job) != "Running":
        return None
    count, most = restarts(job)
    longest = max(seconds for _, seconds in known)
    at = max(since + timedelta(seconds=seconds) for since, seconds in known)
    return End(
        job=name_of(job), name=logical_name(job), at=at + timedelta(seconds=longest * (most - count)), by=DEADLINE
    )


def _pod_deadline(pod: Object) -> tuple[datetime, int] | None:
    since, seconds = pod.get("status", {}).get("startTime"), pod["spec"].get("activeDeadlineSeconds")
    return (moment(since), seconds) if since and seconds else None


def by_steps(job: Object, seconds_left: float, now: datetime) -> End:
    """Return when a job will have ended that says how many steps are left."""
    return End(job=name_of(job), name=logical_name(job), at=now + timedelta(seconds=seconds_left), by=STEPS)


def start(case: Case, cause: str, ends: Iterable[End]) -> Start | None:
    """Return the estimated start of a job; None if it does not wait for others.

    Args:
        case: The job.
        cause: Why it does not run, as `why` names it.
        ends: Of jobs of its namespace; of two of one job the earlier one counts.
    """
    if cause not in _WAITING:
        return None
    in_order = _first_of_each(end for end in ends if end.job != name_of(case.job))
    ahead = len(ahead_of(case))
    enough = _enough(case, in_order) if cause in _SHORT and _can_be_played(case.snapshot) else ()
    return Start(
        ends=in_order,
        at=enough[-1].at if enough else None,
        after=[end.name for end in enough],
        latest=any(end.by == DEADLINE for end in enough),
        ahead=ahead,
    )


def _first_of_each(ends: Iterable[End]) -> list[End]:
    first: dict[str, End] = {}
    for end in sorted(ends, key=lambda each: each.at):
        first.setdefault(end.job, end)
    return list(first.values())


def _can_be_played(snapshot: Snapshot) -> bool:
    """Whether nodes, queues and all that pods hold are known."""
    return bool(snapshot.nodes) and not snapshot.unreadable


def _enough(case: Case, ends: Sequence[End]) -> Sequence[End]:
    """Return the first ends after which there is room for all of the job; empty if they are not enough."""
    for number in range(1, len(ends) + 1):
        gone = {end.job for end in ends[:number]}
        left = replace(case, snapshot=_without(case.snapshot, gone))
        if no_room(left) is None and queue_limit(left) is None:
            return ends[:number]
    return ()


def _without(snapshot: Snapshot, jobs: set[str]) -> Snapshot:
    kept = [pod for pod in snapshot.pods if not (mark(pod, JOB_NAME) in jobs and _is_own(snapshot, pod))]
    return replace(snapshot, pods=kept)


def _is_own(snapshot: Snapshot, pod: Object) -> bool:
    return pod["metadata"].get("namespace", snapshot.namespace) == snapshot.namespace
