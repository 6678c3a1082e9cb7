"""Logs of a job whose pods are deleted, from the store, in the form of the logs of existing pods."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from athanor.inspection.log_store import origin, printed_fields, quoted
from infra.errors import RefusalError, choices
from infra.monitoring.logs import JOB_FIELD, LABEL_FIELDS, NAMESPACE_FIELD, POD_FIELD, RUN_FIELD
from infra.monitoring.logs import TIME_FIELD as TIME
from tools.operations.log_lines import sentence
from tools.operations.logs import sortable, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from athanor.inspection.log_store import LogStore, Row
    from tools.operations.logs import Line, Source

PAGE_LINES = 20_000
"""About how many lines are asked for, sorted and shown at once: a log need not fit into memory."""
_BUCKETS = 500
"""Into how many parts a time is cut to count its lines."""
_SMALLEST = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a job in the store."""

    name: str
    """The job's name in the cluster."""
    sources: frozenset[Source]
    first: str
    """Time of its first line (RFC 3339)."""
    last: str
    lines: int


@dataclass(frozen=True)
class Span:
    """A time, without its end."""

    start: datetime
    end: datetime

    @property
    def arguments(self) -> dict[str, str]:
        """The time as arguments of a query."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}


def runs_of(store: LogStore, namespace: str, job: str) -> list[Run]:
    """Return the runs that the store has of a job, the latest last.

    Args:
        store: The store.
        namespace: Where it ran.
        job: Its name in the program, or of one run, in the cluster.
    """
    streams = f"{{{NAMESPACE_FIELD}={quoted(namespace)},{POD_FIELD}=~{quoted(re.escape(job) + '-.+')}}}"
    labels = f"({quoted(JOB_FIELD)}:={quoted(job)} or {quoted(RUN_FIELD)}:={quoted(job)})"
    counted = f"stats by (_stream) min({TIME}) first, max({TIME}) last, count() lines"
    streams_by_run: dict[str, list[tuple[Source, Row]]] = {}
    for row in store.rows(f"{streams} {labels} | {counted}"):
        whose = origin(row)
        streams_by_run.setdefault(_run_name(whose.pod, job), []).append(((whose.pod, whose.container), row))
    runs = [_run(name, streams_of_run) for name, streams_of_run in streams_by_run.items()]
    return sorted(runs, key=lambda run: sortable(run.last.encode()))


def _run_name(pod: str, job: str) -> str:
    """Return `my-run-0a1b2c3d` for the pod `my-run-0a1b2c3d-worker-0` of job `my-run`."""
    match = re.match(rf"{re.escape(job)}-[0-9a-f]{{8}}(?=-.+-\d+$)", pod)
    return match.group() if match else job


def _run(name: str, streams: Sequence[tuple[Source, Row]]) -> Run:
    def by_time(text: str) -> bytes:
        return sortable(text.encode())

    return Run(
        name=name,
        sources=frozenset(source for source, _ in streams),
        first=min((row["first"] for _, row in streams), key=by_time),
        last=max((row["last"] for _, row in streams), key=by_time),
        lines=sum(int(row["lines"]) for _, row in streams),
    )


def jobs_of(store: LogStore, namespace: str) -> set[str]:
    """Return the names of the jobs of a namespace of which the store has lines."""
    rows = store.rows(f"{{{NAMESPACE_FIELD}={quoted(namespace)}}} | uniq by ({quoted(JOB_FIELD)})")
    return {row[JOB_FIELD] for row in rows if row.get(JOB_FIELD)}


def show_past(
    store: LogStore, namespace: str, job: str, *, known: Collection[str] = (), timestamps: bool = False
) -> None:
    """Write the logs of a job's latest run, or of the run of that name, to standard output.

    Args:
        store: The store.
        namespace: Where it ran.
        job: See `runs_of`.
        known: Names of the jobs that the cluster has.
        timestamps: Whether each line is shown with its time.

    Raises:
        RefusalError: the store has none; the message names jobs that there are or were.
        LogStoreError: the store did not answer.
    """
    runs = runs_of(store, namespace, job)
    if not runs:
        limit = f"the store has no logs of such a job in namespace {namespace!r} (any more)"
        if job in known:
            raise RefusalError("JOB", job, limit, f"`make why JOB={job}` shows its state")
        raise RefusalError("JOB", job, limit, choices(job, {*known, *jobs_of(store, namespace)}))
    run = runs[-1]
    if len(runs) > 1:
        others = ", ".join(f"JOB={each.name}" for each in reversed(runs[:-1]))
        print(f"These are the logs of {run.name}. Previous runs: {others}", file=sys.stderr)
    before = prefixes(run)
    for line in lines_of(store, namespace, run):
        sys.stdout.buffer.write(written(line, before, timestamps=timestamps))
    sys.stdout.buffer.flush()


def prefixes(run: Run) -> dict[Source, str]:
    """Return the prefix of each source's lines: `worker-0`, and `worker-0/prepare` for further containers.

    A pod that is gone does not tell which container is its first; in the program's jobs it has the role's name.
    """
    by_source: dict[Source, str] = {}
    for pod, container in run.sources:
        short = pod.removeprefix(f"{run.name}-")
        alone = sum(pod == other for other, _ in run.sources) == 1
        is_main = alone or short.rpartition("-")[0] == container
        by_source[pod, container] = short if is_main else f"{short}/{container}"
    return by_source


def lines_of(store: LogStore, namespace: str, run: Run) -> Iterator[Line]:
    """Yield the lines of a run by time, each once.

    The collector reads on where it stopped; only one that was killed hands over again what it had not noted.
    """
    pods = quoted(re.escape(run.name) + "-.+")
    streams = f"{{{NAMESPACE_FIELD}={quoted(namespace)},{POD_FIELD}=~{pods}}}"
    # The labels of the pod are the same on every line.
    query = f"{streams} | delete {quoted(LABEL_FIELDS)}*"
    whole = Span(_moment(run.first), _moment(run.last) + _SMALLEST)
    for page in pages(store, streams, whole):
        previous: Line | None = None
        lines = (_line(row) for row in store.rows(query, **page.arguments))
        for line in sorted(lines, key=lambda line: (sortable(line[0]), *line)):
            if line != previous:
                yield line
            previous = line


def _moment(text: str) -> datetime:
    """Return a time of the store to the microsecond before it: Python's times know no nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}").replace(tzinfo=UTC)


def _line(row: Row) -> Line:
    whose = origin(row)
    return row[TIME].encode(), (whose.pod, whose.container), text_of(row).encode()


def text_of(row: Mapping[str, str]) -> str:
    """Return a stored line for people."""
    return sentence(printed_fields(row))


def pages(store: LogStore, query: str, span: Span) -> Iterator[Span]:
    """Yield times, one after the other, of about PAGE_LINES lines each; none where there are no lines."""
    step = max(_SMALLEST, (span.end - span.start) / _BUCKETS)
    start, end, lines = span.start, span.start, 0
    for bucket, count in _counts(store, query, span, step):
        if lines and lines + count > PAGE_LINES:
            yield Span(start, end)
            start, lines = bucket.start, 0
        if count > PAGE_LINES and step > _SMALLEST:
            yield from pages(store, query, bucket)
            start = bucket.end
        else:
            start = start if lines else bucket.start
            lines += count
        end = bucket.end
    if lines:
        yield Span(start, end)


def _counts(store: LogStore, query: str, span: Span, step: timedelta) -> list[tuple[Span, int]]:
    """Return the parts of a time that have lines, in order, with their number."""
    nanoseconds = step // timedelta(microseconds=1) * 1000
    counted = f"{query} | stats by ({TIME}:{nanoseconds}ns) count() lines"
    counts: list[tuple[Span, int]] = []
    for row in store.rows(counted, **span.arguments):
        start = _moment(row[TIME])
        counts.append((Span(max(start, span.start), min(start + step, span.end)), int(row["lines"])))
    return sorted(counts, key=lambda each: each[0].start)
