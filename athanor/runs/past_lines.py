"""What runs have printed whose pods are gone, from the platform's log store, for those who may reach it.

The store has no notion of users, so not every team may (examples/team/past-logs.yaml).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import printable
from athanor.inspection.log_store import LogStore, LogStoreError, origin, printed_fields, quoted
from athanor.inspection.objects import JOBS
from athanor.runs.job import Log, has_ended, print_order, readable_pods, role_of
from athanor.runs.pod_lines import json_line
from athanor.runs.pod_series import series_of
from athanor.runs.series import Series, read_series
from infra.errors import RefusalError
from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VICTORIA_LOGS_PORT
from infra.monitoring.logs import NAMESPACE_FIELD, POD_FIELD, RUN_FIELD, TIME_FIELD

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

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


def are_gone(cluster: Cluster, job_name: str) -> bool:
    """Return whether the pods of a job existed once and do not any more."""
    job = cluster.find(JOBS, job_name)
    ended = job is None or has_ended(job)
    return ended and not readable_pods(cluster, job_name)


def whole_series(cluster: Cluster, job_name: str) -> Series:
    """Return what a job has printed of its steps, also if its pods are gone.

    Raises:
        RefusalError: they are gone, and their lines cannot be had.
    """
    if not are_gone(cluster, job_name):
        return series_of(cluster, job_name)
    return read_series("\n".join(f"{line.time} {line.text}" for line in past_lines(cluster, job_name, one_pod=True)))


def print_past(cluster: Cluster, job_name: str, *, as_json: bool = False) -> None:
    """Print the latest lines of a job whose pods are gone.

    Raises:
        RefusalError: they cannot be had.
    """
    lines = past_lines(cluster, job_name)
    print_lines(lines, as_json=as_json)
    if len(lines) == MOST_LINES:
        sys.stderr.write(f"its pods are gone; these are the latest {MOST_LINES} lines of them\n")


def print_lines(lines: Iterable[PastLine], *, as_json: bool) -> None:
    """Print lines as those of pods that are there."""
    for line in lines:
        plain = f"[{line.log.label}] {printable(line.text)}"
        sys.stdout.write(f"{json_line(line.log, line.time, line.text) if as_json else plain}\n")


def past_lines(cluster: Cluster, job_name: str, *, one_pod: bool = False, only: str | None = None) -> list[PastLine]:
    """Return the latest lines of a job from the log store, by time.

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        one_pod: Whether only those of the pod that prints its progress are returned.
        only: The name of the one pod whose lines are returned; None: those of all.

    Raises:
        RefusalError: the store has none, does not answer, or not to this user.
    """
    with _store_address(cluster, job_name) as address:
        store = LogStore(address)
        try:
            pods = _pods_of(store, cluster.namespace, job_name)
            if not pods:
                limit = "has no pods any more, and the log store has no lines of them (any more)"
                raise RefusalError("run", job_name, limit, "run it again")
            chosen = [only] if only else pods[:1] if one_pod else pods
            query = _query(cluster.namespace, job_name, chosen)
            return _lines(job_name, store.rows(query, limit=str(MOST_LINES)))
        except LogStoreError as error:
            raise RefusalError("log store", VICTORIA_LOGS, str(error), "try again") from None
        finally:
            store.close()


def _pods_of(store: LogStore, namespace: str, job_name: str) -> list[str]:
    """Return the names of a job's pods, the one that prints its progress first."""
    rows = store.rows(f"{_query(namespace, job_name)} | stats by (_stream) count() lines")
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
    gone = "has no pods any more, and their lines cannot be read"
    if "(Forbidden)" in said:
        fix = "ask the platform's engineer for the right (examples/team/past-logs.yaml), or run it again"
        return RefusalError("run", job_name, f"{gone}: you may not reach the platform's log store", fix)
    if "(NotFound)" in said:
        return RefusalError("run", job_name, f"{gone}: the platform has no log store", "run it again")
    return RefusalError("run", job_name, f"{gone}: {said or 'kubectl ended early'}", "try again")
