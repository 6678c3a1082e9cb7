"""The logs of a run's pods while they are written, through kubectl: those of the first pods, until the job ends."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.job import (
    ABORTED,
    COMPLETED,
    ENDED,
    hindrance,
    job_of,
    message_of,
    phase_of,
    pods_selector,
    print_order,
    readable,
    readable_pods,
)
from athanor.runs.pod_lines import PodLines
from athanor.runs.watched import Watched, wait_for_change
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from athanor.runs.cluster import Cluster

MOST_PODS = 16
"""Each pod is a process here; a larger job is followed by its first pods."""
_POLL_SECONDS = 1.0
_LAST_LINES_SECONDS = 10


def follow_to_the_end(cluster: Cluster, run: str, job_name: str, *, as_json: bool = False) -> int:
    """Follow a run; return the exit status of the command: Ctrl-C only detaches.

    Raises:
        RefusalError: the job does not exist (any more).
    """
    try:
        phase = follow(cluster, job_name, as_json=as_json)
    except KeyboardInterrupt:
        sys.stderr.write(f"\ndetached; the run goes on: athanor logs --follow {run}\n")
        return 0
    resumes = f"; `athanor resume {run}` continues it" if phase == ABORTED else ""
    sys.stderr.write(f"{run}: {phase}{resumes}\n")
    return 0 if phase == COMPLETED else 1


def follow(cluster: Cluster, job_name: str, *, as_json: bool = False) -> str:
    """Print the lines of a job's pods as they come; return the phase in which it ended.

    Raises:
        RefusalError: the job does not exist (any more).
        BrokenPipeError: nobody reads this process's output any more.
    """
    job_of(cluster, job_name)
    readers: dict[str, PodLines] = {}
    said: set[str] = set()
    with ExitStack() as ends:
        jobs = ends.enter_context(closing(Watched(cluster, JOBS, f"--field-selector=metadata.name={job_name}")))
        pods = ends.enter_context(closing(Watched(cluster, "pods", f"--selector={pods_selector(job_name)}")))
        while True:
            job = next(iter(jobs.now()), None) or job_of(cluster, job_name)
            phase = phase_of(job)
            has_ended = phase in ENDED or phase == ABORTED
            # Two watches are two connections: one may say that the job has ended before the other has named its pods.
            current = [] if has_ended else pods.now()
            started = readable_pods(cluster, job_name) if has_ended else readable(current)
            for pod in _first(job_name, started):
                if pod["metadata"]["uid"] not in readers:
                    reader = PodLines(cluster, job_name, pod, follow=True, as_json=as_json)
                    readers[pod["metadata"]["uid"]] = reader
                    ends.callback(reader.stop)
            if has_ended:
                # The pods have ended, and with them their logs.
                for reader in readers.values():
                    reader.wait(_LAST_LINES_SECONDS)
                return phase
            _check_read(readers.values())
            if not readers:
                say_what_for(job, current, said)
            wait_for_change([jobs, pods], _POLL_SECONDS)


def say_what_for(job: dict[str, Any], pods: Iterable[dict[str, Any]], said: set[str]) -> None:
    """Say what a job waits for, once: an image that cannot be had has two reasons in turn.

    Args:
        job: The job.
        pods: Its pods so far.
        said: What was said before; added to.
    """
    words = " ".join(filter(None, (phase_of(job), message_of(job), hindrance(pods))))
    if words not in said:
        said.add(words)
        sys.stderr.write(f"waiting: {words}\n")


def _first(job_name: str, pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first pods of a job, and of a large one never without the one that prints its progress."""
    return sorted(pods, key=lambda pod: print_order(job_name, pod["metadata"]["name"]))[:MOST_PODS]


def _check_read(readers: Iterable[PodLines]) -> None:
    if any(reader.closed for reader in readers):
        raise BrokenPipeError


def print_logs(cluster: Cluster, job_name: str, *, as_json: bool = False) -> None:
    """Print what the pods of a job have written so far.

    Raises:
        RefusalError: the job does not exist, or has no pods yet.
        BrokenPipeError: nobody reads this process's output any more.
    """
    job_of(cluster, job_name)
    pods = readable_pods(cluster, job_name)
    if not pods:
        raise RefusalError("run", job_name, "has no pods with logs yet", "wait until they run; `athanor why` says why")
    for pod in pods:
        reader = PodLines(cluster, job_name, pod, follow=False, as_json=as_json)
        try:
            reader.wait()
        finally:
            reader.stop()
        _check_read([reader])
