"""Removes the pods of jobs that finished long ago: `python3 -m trainer.helpers.job_cleanup --namespace …`.

The Job objects stay. A stack declares them: the next update would recreate a deleted one, and its job would run again.
Deleting its pods does nothing to a finished Volcano Job.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer.common import command_line
from trainer.helpers.kubernetes_api import ApiAddress, ApiError, KubernetesApi

if TYPE_CHECKING:
    from collections.abc import Sequence

FINISHED = ("Completed", "Failed", "Terminated")
"""Phases that a Volcano Job never leaves. Aborted is none of them: such a job can be resumed."""
_ENDED = ("Succeeded", "Failed")
"""Phases that a pod never leaves."""
_JOB_NAME_LABEL = "volcano.sh/job-name"


@dataclass(frozen=True, kw_only=True)
class CleanUpConfig:
    """Delete the pods of jobs that finished long enough ago; the jobs stay."""

    namespace: str
    """Namespace of the jobs."""
    ttl_label: str
    """Label of Job objects with the seconds that their pods stay after the end."""


class FinishedJob(NamedTuple):
    """A job whose pods are to go."""

    name: str
    uid: str
    seconds_ago: int
    """Seconds since it finished."""


class Pod(NamedTuple):
    """A pod that has ended."""

    name: str
    uid: str


def parse(arguments: Sequence[str] | None = None) -> CleanUpConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(CleanUpConfig, "trainer.helpers.job_cleanup", arguments)


def expired(job: dict[str, Any], ttl_label: str, now: datetime) -> FinishedJob | None:
    """Return the job if it finished longer ago than its label says, by the API server's clock.

    Raises:
        ValueError: the label is not a number, or the job does not say when it finished.
    """
    metadata, state = job["metadata"], job.get("status", {}).get("state", {})
    if state.get("phase") not in FINISHED:
        return None
    age_seconds = int((now - _finished_at(state)).total_seconds())
    # Anyone who may write jobs may write any label: a plain number is never too large to compare.
    expires = age_seconds >= _seconds(metadata["labels"][ttl_label])
    return FinishedJob(metadata["name"], metadata["uid"], age_seconds) if expires else None


def _seconds(written: str) -> int:
    if not written.isdecimal():
        raise ValueError(f"its label says {written!r}, which is not a number of seconds")
    return int(written)


def _finished_at(state: dict[str, Any]) -> datetime:
    since = state.get("lastTransitionTime")
    if not since:
        raise ValueError("it does not say when it finished")
    at = datetime.fromisoformat(since)
    if at.tzinfo is None:
        raise ValueError(f"it finished at {since!r}, which names no time zone")
    return at


def clean_up(api: KubernetesApi, config: CleanUpConfig) -> int:
    """Delete the ended pods of all jobs whose time is over.

    Returns:
        How many jobs could not be cleaned up; the log says why.

    Raises:
        ApiError: jobs or pods cannot be listed.
    """
    jobs = api.listed(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{config.namespace}/jobs", labels=config.ttl_label)
    over: list[FinishedJob] = []
    failures = 0
    for job in jobs.items:
        try:
            finished = expired(job, config.ttl_label, jobs.at)
        except ValueError as error:
            failures += 1
            _complain(job["metadata"]["name"], str(error))
        else:
            over += [finished] if finished else []
    pods = _ended_pods(api, config.namespace) if over else {}
    for job in over:
        left = pods.get(job.uid, ())
        if left:
            failures += _remove(api, config.namespace, job, left)
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when nothing is left to do, 1 when something failed, which the next run tries again."""
    config = parse(arguments)
    try:
        api = KubernetesApi(ApiAddress.in_cluster())
        try:
            return min(1, clean_up(api, config))
        finally:
            api.close()
    except ApiError as error:
        _complain("nothing more done", str(error))
        return 1


def _ended_pods(api: KubernetesApi, namespace: str) -> dict[str, list[Pod]]:
    """Return the ended pods by the uid of the Job that owns them: a later job may have the name of an earlier one."""
    pods_by_job: dict[str, list[Pod]] = {}
    for phase in _ENDED:
        selected = f"status.phase={phase}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        for pod in api.listed(path, labels=_JOB_NAME_LABEL, fields=selected, metadata_only=True).items:
            metadata = pod["metadata"]
            for owner in metadata.get("ownerReferences", ()):
                pods_by_job.setdefault(owner["uid"], []).append(Pod(metadata["name"], metadata["uid"]))
    return pods_by_job


def _remove(api: KubernetesApi, namespace: str, job: FinishedJob, pods: Sequence[Pod]) -> int:
    """Return 1 if a pod of the job is still there, else 0."""
    deleted = 0
    problems: list[ApiError] = []
    for pod in pods:
        try:
            deleted += api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod.name}", pod.uid) == "deleted"
        except ApiError as error:
            problems.append(error)
    print(f"job_cleanup: {job.name}: finished {job.seconds_ago} s ago, {deleted} pods removed", flush=True)
    if problems:
        _complain(job.name, f"{len(problems)} of {len(pods)} pods could not be removed, such as by {problems[0]}")
    return 1 if problems else 0


def _complain(about: str, what: str) -> None:
    print(f"job_cleanup: {about}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
