"""Log lines of deleted pods, from the platform's log store, for users with access to it.

Of a run that has ended these are all lines; of one that still runs, those from before its pods were restarted. The
store has no notion of users, so not every team may read it (examples/team/past-logs.yaml).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.inspection.log_store import LogStore, LogStoreError, origin, printed_fields, quoted
from athanor.inspection.objects import JOBS
from athanor.runs.job import Log, has_ended, pods_selector, print_order, readable, role_of
from athanor.runs.pod_lines import json_line
from athanor.runs.pod_series import series_of
from athanor.runs.series import Series, read_series
from infra.errors import RefusalError
from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VICTORIA_LOGS_PORT
from infra.monitoring.logs import NAMESPACE_FIELD, POD_FIELD, RUN_FIELD, TIME_FIELD

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from athanor.inspection.log_store import Row
    from athanor.runs.cluster import Cluster

MOST_LINES = 5000
"""The latest ones: as many as are read of a pod that exists."""
_POD = f"{VICTORIA_LOGS}-0"
_ADDRESS = re.compile(r"Forwarding from (127\.0\.0\.1:\d+)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True)
class PastLine:
    """A line that a container has printed."""

    time: str
    """When, as RFC 3339."""
    log: Log
    text: str


def are_gone(job: dict[str, Any] | None, pods: Iterable[dict[str, Any]]) -> bool:
    """Return whether the pods of a job existed once and do not any more.

    Args:
        job: The job; None if it does not exist (any more).
        pods: Those that the cluster has.
    """
    return (job is None or has_ended(job)) and not readable(pods)


def whole_series(cluster: Cluster, job_name: str) -> Series:
    """Return the metrics that a job has printed, including those of earlier and deleted pods.

    Raises:
        RefusalError: they are gone, and their lines cannot be read.
    """
    job, pods = cluster.find(JOBS, job_name), cluster.items("pods", pods_selector(job_name))
    if job is None or are_gone(job, pods):
        return _series(past_lines(cluster, job_name, one_pod=True))
    return EarlierSteps(cluster, job_name).and_now(job, pods, series_of(cluster, job_name, pods))


def _series(lines: Iterable[PastLine]) -> Series:
    return read_series("\n".join(f"{line.time} {line.text}" for line in lines))


class EarlierSteps:
    """Metrics that a job printed before its pods were restarted; the store is queried once per start."""

    def __init__(self, cluster: Cluster, job_name: str) -> None:
        self._cluster, self._job_name = cluster, job_name
        self._known: dict[str, Series] = {}
        """By when the pod was created that prints the progress; empty where there is none."""
        self._is_readable = True

    def and_now(self, job: dict[str, Any], pods: Sequence[dict[str, Any]], now: Series) -> Series:
        """Return the steps of all starts; where the store cannot be read, those of the present one, and say so once.

        Args:
            job: The job.
            pods: Its pods.
            now: What the present ones have printed.
        """
        present = sorted(readable(pods), key=lambda pod: print_order(self._job_name, pod["metadata"]["name"]))
        start = _created(present[0]) if present else ""
        if start not in self._known:
            self._known[start] = self._read(job, pods)
        return self._known[start].and_then(now)

    def _read(self, job: dict[str, Any], pods: Sequence[dict[str, Any]]) -> Series:
        try:
            return _series(earlier_lines(self._cluster, job, pods, one_pod=True) if self._is_readable else [])
        except RefusalError as error:
            self._is_readable = False
            say_unreadable(error)
            return _series([])


def say_unreadable(error: RefusalError) -> None:
    """Say why what pods printed before they started again is not shown."""
    sys.stderr.write(f"athanor: only the output of the current pods is shown: {error}\n")


def earlier_lines(
    cluster: Cluster, job: dict[str, Any], pods: Iterable[dict[str, Any]], *, one_pod: bool = False
) -> list[PastLine]:
    """Return the latest lines that a job's pods wrote before they started again, by time.

    The store is not asked about a job whose pods never did.

    Args:
        cluster: The cluster, in the job's namespace.
        job: The job.
        pods: Its present pods.
        one_pod: As for `past_lines`.

    Raises:
        RefusalError: the store does not answer, or not to this user.
    """
    created = created_times(pods)
    if not _has_started_again(job, created.values()):
        return []
    lines = _stored(cluster, job["metadata"]["name"], one_pod=one_pod, since=job["metadata"]["creationTimestamp"])
    return written_before(created, lines or [])


def created_times(pods: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return when each of some pods that have started was created, by its name."""
    return {pod["metadata"]["name"]: _created(pod) for pod in readable(pods)}


def written_before(created: Mapping[str, str], lines: Iterable[PastLine]) -> list[PastLine]:
    """Return the lines that are not those of the present pods.

    Args:
        created: When each of these was created, by its name.
        lines: What pods of the same and of other names have written.
    """
    return [line for line in lines if second_of(line.time) < second_of(created.get(line.log.pod, "9"))]


def _has_started_again(job: dict[str, Any], created: Collection[str]) -> bool:
    """Return whether a job ran before its present pods were created.

    Not by its count of restarts alone: Volcano replaces a pod that was taken away without counting. It keeps a
    condition for each phase that a job has come into (pkg/controllers/job/job_controller_actions.go).
    """
    status: dict[str, Any] = job.get("status", {})
    ran = [each["lastTransitionTime"] for each in status.get("conditions", []) if each["status"] == "Running"]
    return bool(status.get("retryCount")) or (bool(ran) and max(created, default="9") > min(ran))


def _created(pod: dict[str, Any]) -> str:
    return pod["metadata"].get("creationTimestamp", "")


def second_of(time: str) -> str:
    """Return a time (RFC 3339, UTC) without fractions and zone, which compares as text."""
    return time.partition(".")[0].rstrip("Z")


def print_lines(lines: Iterable[PastLine], *, as_json: bool) -> None:
    """Print lines as those of pods that are there."""
    for line in lines:
        plain = f"[{line.log.label}] {printable(line.text)}"
        sys.stdout.write(f"{json_line(line.log, line.time, line.text) if as_json else plain}\n")


def past_lines(
    cluster: Cluster, job_name: str, *, one_pod: bool = False, only: str | None = None, since: str | None = None
) -> list[PastLine]:
    """Return the latest lines of a job from the log store, by time.

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        one_pod: Whether only those of the pod that prints its progress are returned.
        only: The name of the one pod whose lines are returned; None: those of all.
        since: When the earliest of them may have been printed (RFC 3339).

    Raises:
        RefusalError: the store has none, does not answer, or not to this user.
    """
    lines = _stored(cluster, job_name, one_pod=one_pod, only=only, since=since)
    if lines is None:
        limit = "has no pods any more, and the log store has no lines of them"
        raise RefusalError("run", job_name, limit, "run it again")
    return lines


def _stored(
    cluster: Cluster, job_name: str, *, one_pod: bool, only: str | None = None, since: str | None = None
) -> list[PastLine] | None:
    """Return the latest lines of a job since a time (RFC 3339), by time; None if none of its pods has any."""
    with _store_address(cluster, job_name) as address:
        store = LogStore(address)
        span = {} if since is None else {"start": since}
        try:
            pods = _pods_of(store, cluster.namespace, job_name, span)
            if not pods:
                return None
            chosen = [only] if only else pods[:1] if one_pod else pods
            query = _query(cluster.namespace, job_name, chosen)
            return _lines(job_name, store.rows(query, **span, limit=str(MOST_LINES)))
        except LogStoreError as error:
            raise RefusalError("log store", VICTORIA_LOGS, str(error), "try again") from None
        finally:
            store.close()


def _pods_of(store: LogStore, namespace: str, job_name: str, span: Mapping[str, str]) -> list[str]:
    """Return the names of a job's pods, the one that prints its progress first."""
    rows = store.rows(f"{_query(namespace, job_name)} | stats by (_stream) count() lines", **span)
    return sorted({origin(row).pod for row in rows}, key=partial(print_order, job_name))


def _query(namespace: str, job_name: str, pods: Iterable[str] = ()) -> str:
    names = "|".join(re.escape(pod) for pod in pods) or f"{re.escape(job_name)}-.+"
    streams = f"{{{NAMESPACE_FIELD}={quoted(namespace)},{POD_FIELD}=~{quoted(names)}}}"
    return f"{streams} {quoted(RUN_FIELD)}:={quoted(job_name)}"


def _lines(job_name: str, rows: Iterable[Row]) -> list[PastLine]:
    lines: list[PastLine] = []
    for row in rows:
        of = origin(row)
        is_program = of.container in {"", role_of(job_name, of.pod)}
        log = Log(job_name=job_name, pod=of.pod, container=of.container, is_program=is_program)
        lines.append(PastLine(time=row[TIME_FIELD], log=log, text=_text(row)))
    return sorted(lines, key=_moment)


def _moment(line: PastLine) -> tuple[str, str]:
    """Return a time that can be compared: the store leaves out zeros at the end."""
    whole, _, fraction = line.time.rstrip("Z").partition(".")
    return whole, f"{fraction:0<9}"


def _text(row: Row) -> str:
    """Return a line much as it was printed: the store keeps the fields of a JSON object, not their order and types."""
    fields = printed_fields(row)
    message = fields.pop("message")
    if not fields:
        return message
    values = {key: json.loads(value) if _NUMBER.fullmatch(value) else value for key, value in fields.items()}
    return json.dumps({"message": message, **values} if message else values, ensure_ascii=False)


@contextmanager
def _store_address(cluster: Cluster, job_name: str) -> Generator[str]:
    """Forward a port of this machine to the store while the block runs; yield host:port."""
    words = ["port-forward", "--address=127.0.0.1", f"pod/{_POD}", f":{VICTORIA_LOGS_PORT}"]
    command = [*cluster.within(NAMESPACE).prefix, *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as kubectl:
        try:
            yield _forwarded(kubectl, job_name)
        finally:
            kubectl.terminate()


def _forwarded(kubectl: subprocess.Popen[str], job_name: str) -> str:
    assert kubectl.stdout is not None
    said = ""
    for line in kubectl.stdout:
        if match := _ADDRESS.match(line):
            return match[1]
        said = line.strip() or said
    raise _unreachable(job_name, said)


def _unreachable(job_name: str, said: str) -> RefusalError:
    gone = "had pods that are deleted, and their lines cannot be read"
    if "(Forbidden)" in said:
        fix = "ask the platform's operator for the right (examples/team/past-logs.yaml), or run it again"
        return RefusalError("run", job_name, f"{gone}: you have no access to the platform's log store", fix)
    if "(NotFound)" in said:
        return RefusalError("run", job_name, f"{gone}: the platform has no log store", "run it again")
    return RefusalError("run", job_name, f"{gone}: {said or 'kubectl ended early'}", "try again")
