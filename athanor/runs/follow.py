"""Live logs of a run's pods through kubectl, until the job ends."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from athanor.inspection.containers import exit_words, statuses
from athanor.inspection.control_characters import printable
from athanor.inspection.jobs import short_name
from athanor.inspection.objects import JOBS
from athanor.runs.job import (
    COMPLETED,
    has_ended,
    hindrance,
    message_of,
    phase_of,
    pods_selector,
    without_job,
)
from athanor.runs.overlooked import REMINDED, Reminder
from athanor.runs.patience import Patience
from athanor.runs.pod_lines import PodLines
from athanor.runs.readers import Readers
from athanor.runs.watched import Watched, wait_for_change
from athanor.runs.why import finding_of
from infra.job_pods import RESTART_EXIT_STATUS, STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.job import Log

_POLL_SECONDS = 1.0


def follow_to_the_end(cluster: Cluster, run: str, job_name: str, *, as_json: bool = False) -> int:
    """Follow a run; return the exit status of the command: that of the program which failed, and 0 if none did.

    Ctrl-C only detaches.

    Raises:
        RefusalError: the job does not exist (any more).
    """
    try:
        phase = follow(cluster, job_name, as_json=as_json)
    except KeyboardInterrupt:
        sys.stderr.write(f"\ndetached; the run continues: athanor logs --follow {run}\n")
        return 0
    if phase == COMPLETED:
        sys.stderr.write(f"{run}: {phase}\n")
        return 0
    finding = finding_of(cluster, job_name)
    sys.stderr.write(f"{run}: {phase}: {printable(finding.sentence)}\n")
    return finding.exit_code or 1


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
        seen, patience, attempts = job.look(), Patience(_say), _Attempts()
        reminder = Reminder(cluster.asked, cluster.namespace, job_name)
        while True:
            if seen is None:
                raise without_job(cluster, job_name)
            has_missed = attempts.look(seen)
            readers.read(seen.pods, seen.gone, has_missed=has_missed)
            if seen.has_ended:
                readers.read_rest(seen.pods)
                return phase_of(seen.job)
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
    gone: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Pods that were deleted since the last look, as they were then."""

    @property
    def has_ended(self) -> bool:
        return has_ended(self.job)


class _Attempts:
    """Says how each start of a job's pods ended that is followed by another.

    Volcano counts in the job's status how often something was started again, and all pods were ended; it marks each
    pod with the latter count (createJobPod and killPods, pkg/controllers/job).
    """

    def __init__(self) -> None:
        self._restarts: int | None = None
        self._version = 0
        self._ends: dict[str, tuple[int, str]] = {}
        """Which start ended how, by the uids of its pods: of the starts that were not spoken of yet."""
        self._over: set[str] = set()
        self._seen: set[int] = set()
        """Starts of which pods were seen."""
        self._waits = False

    def look(self, seen: _Seen) -> bool:
        """Say of a job's pods that they start again if they do; return whether some came and went unseen."""
        status = seen.job.get("status", {})
        count, version = status.get("retryCount", 0), status.get("version", 0)
        if seen.has_ended:  # which may have raised it
            version = max(map(_version_of, seen.pods), default=version)
        self._note(seen)
        more = 0 if self._restarts is None else count - self._restarts
        is_whole = version > self._version
        starts = sorted({start for start, _ in self._ends.values() if start < version or not is_whole})
        if len(starts) < more and not self._waits and not seen.has_ended:
            self._waits = True  # two watches are two connections: the pods' may be the later one
            return False
        known = sorted(each for each in self._seen if self._version <= each < version)
        if more > 0 and is_whole:
            for number, start in enumerate([*known, *[None] * more][:more], count - more + 1):
                _say(f"athanor: start {number} of all pods has ended ({self._words(start)}); they are restarted")
        elif more > 0 and starts:
            _say(f"athanor: {'; '.join(map(self._words, starts))}; restarted alone")
        if more > 0:
            self._over |= {uid for uid, (start, _) in self._ends.items() if start in starts}
            self._ends = {uid: end for uid, end in self._ends.items() if uid not in self._over}
        self._restarts, self._version, self._waits = count, version, False
        return is_whole and more > len(known)

    def _note(self, seen: _Seen) -> None:
        """Note which pods there are and were, and how they ended."""
        for each in statuses([*seen.gone, *seen.pods]):
            uid, start = each.pod["metadata"]["uid"], _version_of(each.pod)
            self._seen.add(start)
            if each.exit and uid not in self._over and start >= self._version:
                self._ends.setdefault(uid, (start, f"{short_name(each.pod, seen.job)}: {_end_words(each.exit)}"))

    def _words(self, start: int | None) -> str:
        ends = [words for of, words in self._ends.values() if of == start]
        return "; ".join(ends) or ("its pods were not seen" if start is None else "its pods were taken away")


def _version_of(pod: dict[str, Any]) -> int:
    return int(pod["metadata"].get("annotations", {}).get("volcano.sh/job-version", 0))


def _end_words(ended: dict[str, Any]) -> str:
    known = {RESTART_EXIT_STATUS: "its program failed", STOPPED_EXIT_STATUS: "asked to end"}
    return known.get(ended["exitCode"]) or exit_words(ended)


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
        return _Seen(job, pods, self._pods.take_gone())

    def close(self) -> None:
        """End the watches."""
        for each in self.watches:
            each.close()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def say_what_for(job: dict[str, Any], pods: Iterable[dict[str, Any]], said: set[str]) -> None:
    """Say what a job waits for, once: an image that cannot be pulled has two reasons in turn.

    Args:
        job: The job.
        pods: Its pods so far.
        said: What was said before; added to.
    """
    words = " ".join(filter(None, (phase_of(job), message_of(job), hindrance(pods))))
    if words not in said:
        said.add(words)
        _say(f"waiting: {words}")


def print_logs_of(
    cluster: Cluster,
    logs: Iterable[Log],
    options: Sequence[str] = (),
    *,
    follow: bool = False,
    as_json: bool = False,
) -> None:
    """Print what containers have written, one after the other, or with `follow` at once until they end.

    Args:
        cluster: The cluster, in the job's namespace.
        logs: Which logs.
        options: Further options of `kubectl logs`.
        follow: Whether to read on.
        as_json: As `PodLines`.

    Raises:
        BrokenPipeError: nobody reads this process's output any more.
    """
    readers: list[PodLines] = []
    try:
        for log in logs:
            readers.append(PodLines(cluster, log, follow=follow, as_json=as_json, options=options))
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
