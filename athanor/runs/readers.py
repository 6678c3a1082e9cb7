"""Readers of the logs of a followed run: each resumes after a broken connection, until its pod has ended."""

from __future__ import annotations

import sys
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from athanor.runs.job import has_ended_printing, logs_of, print_order
from athanor.runs.past_lines import created_times, past_lines, print_lines, written_before
from athanor.runs.pod_lines import PodLines
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.job import Log

MOST_PODS = 16
"""Each pod is a process here; a larger job is followed by its first pods."""
_FIRST_DELAY_SECONDS, _LAST_DELAY_SECONDS = 1.0, 15.0
"""Before a log is read on; doubled as long as nothing comes of it, because a node may be away."""
_REPORT_SECONDS = 3.0
"""Before a log is read on that has ended without an error: a watch says a second later that its pod has ended."""
_SILENT_SECONDS = 10.0
"""Seconds without a new line from ended pods, after which the reader stops waiting."""
_LOOK_SECONDS = 0.1
_STORE_SECONDS = 3.0
"""Time until the log store has a line that was printed."""


class Readers:
    """Prints the lines of a job's first pods as they come."""

    def __init__(self, cluster: Cluster, job_name: str, *, as_json: bool) -> None:
        """Begin without pods.

        Args:
            cluster: The cluster, in the job's namespace.
            job_name: The job's name.
            as_json: Whether each line is printed as a JSON object, with its time.
        """
        self._cluster, self._job_name, self._as_json = cluster, job_name, as_json
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._since: str | None = None
        """When the first pod of the first call was created; None before that call, empty if there was none."""
        self._last_stored: dict[str, str] = {}
        """When the last line was printed that is shown of pods that are gone, by their labels."""
        self._stored_at: float | None = None
        """When the log store has the lines that were missed (time.monotonic()); None where none were."""

    def __len__(self) -> int:
        """Return how many logs have been read so far."""
        return len(self._readers)

    def read(
        self, pods: Iterable[dict[str, Any]], gone: Sequence[dict[str, Any]] = (), *, has_missed: bool = False
    ) -> None:
        """Read the pods that are not read yet, and on where a connection was cut.

        Args:
            pods: All of the job's that still exist.
            gone: Those that have been deleted since the last call.
            has_missed: Whether others have been, of which nothing is known.

        Raises:
            BrokenPipeError: nobody reads this process's output any more.
        """
        pods = list(pods)
        if self._since is None:
            self._since = min((pod["metadata"].get("creationTimestamp", "") for pod in pods), default="")
        there = {pod["metadata"]["uid"] for pod in pods}
        for (uid, _), reader in self._readers.items():
            if uid not in there and reader.is_cut_off:
                reader.is_done = has_missed = True
        names = _first(self._job_name, (pod["metadata"]["name"] for pod in [*pods, *gone]))
        printed = [pod for pod in gone if pod["metadata"]["name"] in names]
        logs = {(pod["metadata"]["uid"], log.container) for pod in printed for log in logs_of(self._job_name, pod)}
        if has_missed or logs - self._readers.keys():
            self._stored_at = monotonic() + _STORE_SECONDS
        for pod, log in self._to_read(pods):
            self._reader(pod, log).read_on(has_ended=has_ended_printing(pod, log.container))
        if self._stored_at is not None and monotonic() >= self._stored_at:
            self._print_stored(pods)
        self._check_read()

    def _print_stored(self, pods: Iterable[dict[str, Any]]) -> None:
        """Print what pods have printed that are gone, after the lines that were read of them, from the log store."""
        there = {pod["metadata"]["uid"] for pod in pods}
        for (uid, _), reader in self._readers.items():
            if uid not in there and reader.lines.latest:
                label = reader.lines.log.label
                self._last_stored[label] = max(self._last_stored.get(label, ""), reader.lines.latest, key=_instant)
        self._stored_at = None
        try:
            stored = past_lines(self._cluster, self._job_name, since=self._since or None)
        except RefusalError as error:
            sys.stderr.write(f"athanor: the end of what pods printed that are gone is not shown: {error}\n")
            return
        names = _first(self._job_name, (line.log.pod for line in stored))
        for line in written_before(created_times(pods), stored):
            label = line.log.label
            if line.log.pod in names and _instant(line.time) > _instant(
                self._last_stored.get(label, self._since or "")
            ):
                print_lines([line], as_json=self._as_json)
                self._last_stored[label] = line.time

    def _to_read(self, pods: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], Log]]:
        """Return the logs of the first pods that have any, with their pods."""
        started = {pod["metadata"]["name"]: pod for pod in pods if logs_of(self._job_name, pod)}
        first = [started[name] for name in _first(self._job_name, started)]
        return [(pod, log) for pod in first for log in logs_of(self._job_name, pod)]

    def _reader(self, pod: dict[str, Any], log: Log) -> _Reader:
        key = (pod["metadata"]["uid"], log.container)
        if key not in self._readers:
            self._readers[key] = _Reader(PodLines(self._cluster, log, follow=True, as_json=self._as_json))
        return self._readers[key]

    def read_rest(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read all that pods have written which have ended, as the job has.

        Raises:
            BrokenPipeError: as `read`.
        """
        pods = list(pods)
        self.read(pods)
        if self._stored_at is not None:
            sleep(max(0, self._stored_at - monotonic()))
            self._print_stored(pods)
        there = [self._reader(pod, log) for pod, log in self._to_read(pods)]
        begin = monotonic()
        while waiting := [each for each in there if not each.is_done]:
            if monotonic() - max(begin, *(each.lines.heard for each in waiting)) > _SILENT_SECONDS:
                break
            waiting[0].lines.wait(_LOOK_SECONDS)
            for each in waiting:
                each.read_on(has_ended=True, longest_delay=_FIRST_DELAY_SECONDS)
            self._check_read()
        for each in self._readers.values():
            each.lines.wait(0)
            each.lines.print_cut_line()

    def close(self) -> None:
        """End reading."""
        for each in self._readers.values():
            each.lines.stop()

    def _check_read(self) -> None:
        if any(each.lines.closed for each in self._readers.values()):
            raise BrokenPipeError


class _Reader:
    """One pod's lines, and when they are read on."""

    def __init__(self, lines: PodLines) -> None:
        self.lines, self.is_done = lines, False
        self._ended_at: float | None = None
        self._delay = _FIRST_DELAY_SECONDS
        self._heard = lines.heard

    @property
    def is_cut_off(self) -> bool:
        """Whether kubectl has ended with an error, so that the container may have printed more."""
        return bool(self.lines.code) and not self.is_done

    def read_on(self, *, has_ended: bool, longest_delay: float = _LAST_DELAY_SECONDS) -> None:
        """Begin again, after a delay, if kubectl has ended before its pod, or with an error: then there may be more."""
        code = self.lines.code
        if code is None or self.is_done:
            return
        if code == 0 and has_ended:
            self.is_done = True
            return
        if self._ended_at is None:
            self._ended_at = monotonic()
            self._delay = _FIRST_DELAY_SECONDS if self.lines.heard != self._heard else self._delay
        delay = min(self._delay, longest_delay) if code else _REPORT_SECONDS
        if monotonic() - self._ended_at >= delay:
            self._delay = min(self._delay * 2, _LAST_DELAY_SECONDS)
            self._ended_at, self._heard = None, self.lines.heard
            self.lines.read_on()


def _instant(time: str) -> datetime:
    """Return a time that compares; the earliest for an empty one."""
    return datetime.fromisoformat(time or "0001-01-01T00:00:00Z")


def _first(job_name: str, pods: Iterable[str]) -> list[str]:
    """Return the names of a job's first pods, and of a large one's never without the one that prints its progress."""
    return sorted(set(pods), key=lambda pod: print_order(job_name, pod))[:MOST_PODS]
