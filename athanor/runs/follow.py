"""The logs of a run's pods while they are written, through kubectl: those of the first pods, until the job ends."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.job import (
    ABORTED,
    COMPLETED,
    has_ended,
    hindrance,
    job_of,
    message_of,
    phase_of,
    pods_selector,
    readable,
    readable_pods,
    without_job,
)
from athanor.runs.overlooked import REMINDED, Reminder
from athanor.runs.patience import Patience
from athanor.runs.pod_lines import PodLines
from athanor.runs.readers import Readers
from athanor.runs.watched import Watched, wait_for_change
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from athanor.runs.cluster import Cluster

_POLL_SECONDS = 1.0


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
        RefusalError: the job does not exist (any more), or the cluster has not answered for some minutes.
        BrokenPipeError: nobody reads this process's output any more.
    """
    said: set[str] = set()
    with ExitStack() as ends:
        job = ends.enter_context(closing(_FollowedJob(cluster, job_name)))
        readers = ends.enter_context(closing(Readers(cluster, job_name, as_json=as_json)))
        seen, patience = job.look(), Patience(_say)
        reminder = Reminder(cluster.asked, cluster.namespace, job_name)
        while True:
            if seen is None:
                raise without_job(cluster, job_name)
            if seen.has_ended:
                readers.read_rest(readable(seen.pods))
                return phase_of(seen.job)
            readers.read(readable(seen.pods))
            if not readers:
                say_what_for(seen.job, seen.pods, said)
            if not seen.pods and reminder.look():
                _say(REMINDED)
            wait_for_change(job.watches, _POLL_SECONDS)
            seen = patience.answer(job.look)


@dataclass(frozen=True)
class _Seen:
    """A job and its pods, as they are now."""

    job: dict[str, Any]
    pods: list[dict[str, Any]]

    @property
    def has_ended(self) -> bool:
        return has_ended(self.job)


class _FollowedJob:
    """A job and its pods, each kept by a watch."""

    def __init__(self, cluster: Cluster, job_name: str) -> None:
        self._cluster, self._job_name = cluster, job_name
        self._jobs = Watched(cluster, JOBS, f"--field-selector=metadata.name={job_name}")
        self._pods = Watched(cluster, "pods", f"--selector={pods_selector(job_name)}")
        self.watches = [self._jobs, self._pods]

    def look(self) -> _Seen | None:
        """Return how the job does; None if it does not exist any more.

        Raises:
            RefusalError: the cluster does not answer, or not to this user.
        """
        job = next(iter(self._jobs.now()), None) or self._cluster.find(JOBS, self._job_name)
        if job is None:
            return None
        # Two watches are two connections: one may say that the job has ended before the other has named its pods.
        asks = has_ended(job)
        pods = self._cluster.items("pods", pods_selector(self._job_name)) if asks else self._pods.now()
        return _Seen(job, pods)

    def close(self) -> None:
        """End the watches."""
        for each in self.watches:
            each.close()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


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
        _say(f"waiting: {words}")


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
    print_pods(cluster, job_name, pods, as_json=as_json)


def print_pods(  # noqa: PLR0913 - which pods, which of their lines, and how they are printed
    cluster: Cluster,
    job_name: str,
    pods: Iterable[dict[str, Any]],
    options: Sequence[str] = (),
    *,
    follow: bool = False,
    as_json: bool = False,
) -> None:
    """Print what pods have written, one after the other, or with `follow` at once until they end.

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        pods: The pods.
        options: Further options of `kubectl logs`.
        follow: Whether to read on.
        as_json: As `PodLines`.

    Raises:
        BrokenPipeError: nobody reads this process's output any more.
    """
    readers: list[PodLines] = []
    try:
        for pod in pods:
            readers.append(PodLines(cluster, job_name, pod, follow=follow, as_json=as_json, options=options))
            if not follow:
                _finish(readers.pop())
        for reader in readers:
            reader.wait()
    finally:
        for reader in readers:
            reader.stop()


def _finish(reader: PodLines) -> None:
    try:
        reader.wait()
        reader.print_cut_line()
    finally:
        reader.stop()
    if reader.closed:
        raise BrokenPipeError
