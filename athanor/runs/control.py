"""Stopping and resuming of a run, through Volcano's commands to a job's controller.

A stopped job keeps its object, its name and thereby its checkpoints; its pods are deleted, which frees GPUs and quota.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from athanor.runs.job import ABORTED, ENDED, job_of, phase_of
from athanor.runs.overlooked import remind
from athanor.runs.volcano_command import command
from infra.errors import RefusalError

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster

_POLL_SECONDS = 1.0
_REPEAT_EVERY = 15
"""Polls after which a command is given again: a job that is about to start again ignores the first one (Volcano,
pkg/controllers/job/state/restarting.go)."""
_BEYOND_GRACE_SECONDS = 120
"""Seconds for Volcano and the kubelets, in addition to what the pods may take to end."""


def stop(cluster: Cluster, run: str, job_name: str) -> None:
    """Stop a run's pods by SIGTERM, so that they save; return when all are gone.

    Raises:
        RefusalError: it has ended, is stopped already, could not be resumed, or does not stop.
    """
    job = job_of(cluster, job_name)
    phase = phase_of(job)
    if phase in ENDED:
        raise RefusalError("run", run, f"has ended: {phase}", f"`athanor delete {run}` removes it")
    if phase == ABORTED:
        raise RefusalError("run", run, "is stopped already", f"`athanor resume {run}` continues it")
    _check_can_resume(run, job)
    seconds = _grace_seconds(job) + _BEYOND_GRACE_SECONDS
    sys.stderr.write(f"stopping: pods have up to {_grace_seconds(job)} s to save\n")
    ended = _command_until(cluster, job_name, "AbortJob", {ABORTED, *ENDED}, seconds)
    if ended != ABORTED:
        raise RefusalError("run", run, f"ended before it was stopped: {ended}", f"`athanor logs {run}` says how")


def resume(cluster: Cluster, run: str, job_name: str) -> str:
    """Resume a run that is stopped, or that Volcano's controller has overlooked; return its phase.

    Raises:
        RefusalError: it is neither, or Volcano does not start it.
    """
    phase = phase_of(job_of(cluster, job_name))
    if phase == "Pending" and remind(cluster.asked, cluster.namespace, job_name):
        return phase
    if phase != ABORTED:
        raise RefusalError("run", run, f"is not stopped, but {phase}", "`athanor stop` stops a run that has not ended")
    others = {"Restarting", "Pending", "Running", *ENDED}
    return _command_until(cluster, job_name, "ResumeJob", others, _BEYOND_GRACE_SECONDS)


def _check_can_resume(run: str, job: dict[str, Any]) -> None:
    """Refuse a stop for good: a resumed job counts as started once more (Volcano, pkg/controllers/job/state)."""
    starts, most = job.get("status", {}).get("retryCount", 0) + 1, job["spec"].get("maxRetry", 3)
    if starts >= most:
        limit = f"could not be resumed: it was restarted {most - 1} times, the most that a job may be"
        raise RefusalError("run", run, limit, f"`athanor delete {run}` ends it; its files under /data/output stay")


def _grace_seconds(job: dict[str, Any]) -> int:
    specs = [task["template"]["spec"] for task in job["spec"]["tasks"]]
    return max(spec.get("terminationGracePeriodSeconds", 30) for spec in specs)


def _command_until(cluster: Cluster, job_name: str, action: str, phases: set[str], seconds: int) -> str:
    """Give a command until the job is in one of some phases; return the phase."""
    volcano_command = command(cluster.namespace, job_of(cluster, job_name), action)
    for poll in range(int(seconds / _POLL_SECONDS)):
        if poll % _REPEAT_EVERY == 0:
            cluster.create(volcano_command)
        phase = phase_of(job_of(cluster, job_name))
        if phase in phases:
            return phase
        time.sleep(_POLL_SECONDS)
    limit = f"did not handle {action} within {seconds} s: it is {phase_of(job_of(cluster, job_name))}"
    raise RefusalError("run", job_name, limit, "check that Volcano's controllers run, and try again")
