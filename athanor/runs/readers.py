"""Readers of the logs of a followed run: each resumes after a broken connection, until its pod has ended."""

from __future__ import annotations

import sys
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from athanor.runs.job import has_ended_printing, logs_of, print_order
from athanor.runs.past_lines import created_times, past_lines, written_before
from athanor.runs.pod_lines import PodLines
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    def __len__(self) -> int:
        """Return how many logs have been read so far."""
        return len(self._readers)

    def read(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read the pods that are not read yet, and on where a connection was cut.

        Args:
            pods: All of the job's that still exist.

        Raises:
            BrokenPipeError: nobody reads this process's output any more.
        """
        pods = list(pods)
        there = {pod["metadata"]["uid"] for pod in pods}
        for (uid, _), reader in self._readers.items():
            if uid not in there and reader.is_cut_off:
                reader.is_done = True
                self._print_stored(reader, pods)
        for pod, log in self._to_read(pods):
            self._reader(pod, log).read_on(has_ended=has_ended_printing(pod, log.container))
        self._check_read()

    def _print_stored(self, reader: _Reader, pods: Iterable[dict[str, Any]]) -> None:
        """Print the rest of what a container printed whose pod is gone, from the log store."""
        lines = reader.lines
        begin = datetime.fromisoformat(lines.latest or reader.created)
        try:
            stored = written_before(created_times(pods), past_lines(self._cluster, self._job_name, only=lines.log.pod))
        except RefusalError as error:
            sys.stderr.write(f"athanor: the end of what {lines.log.label} printed is not shown: {error}\n")
            return
        for line in stored:
            if line.log.label == lines.log.label and datetime.fromisoformat(line.time) > begin:
                lines.print_line(line.time, line.text)

    def _to_read(self, pods: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], Log]]:
        """Return the logs of the first pods that have any, with their pods."""
        started = [pod for pod in pods if logs_of(self._job_name, pod)]
        return [(pod, log) for pod in _first(self._job_name, started) for log in logs_of(self._job_name, pod)]

    def _reader(self, pod: dict[str, Any], log: Log) -> _Reader:
        key = (pod["metadata"]["uid"], log.container)
        if key not in self._readers:
            lines = PodLines(self._cluster, log, follow=True, as_json=self._as_json)
            self._readers[key] = _Reader(lines, pod["metadata"].get("creationTimestamp", "1970-01-01T00:00:00Z"))
        return self._readers[key]

    def read_rest(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read all that pods have written which have ended, as the job has.

        Raises:
            BrokenPipeError: as `read`.
        """
        pods = list(pods)
        self.read(pods)
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

    def __init__(self, lines: PodLines, created: str) -> None:
        self.lines, self.created, self.is_done = lines, created, False
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


def _first(job_name: str, pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first pods of a job, and of a large one never without the one that prints its progress."""
    return sorted(pods, key=lambda pod: print_order(job_name, pod["metadata"]["name"]))[:MOST_PODS]
