"""`athanor why`: why a run does not run, its place in the queue, and when it can start, if known."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from athanor.inspection import estimate, queues
from athanor.inspection.case import Case
from athanor.inspection.commands import ATHANOR, DECLARED
from athanor.inspection.containers import Finding, failure_and_fix, memory_limit, state_words
from athanor.inspection.control_characters import printable
from athanor.inspection.jobs import job_phase, restarts, short_name
from athanor.inspection.last_words import last_words
from athanor.inspection.objects import TASK, age, mark, name_of, node_of, unread_words
from athanor.inspection.reader import read
from athanor.inspection.why import why as cause_of
from athanor.runs.listing import duration
from athanor.runs.past_lines import earlier_lines
from athanor.runs.pod_lines import texts_of
from athanor.runs.pod_series import series_if_any
from athanor.runs.state_files import PROJECT
from infra.errors import RefusalError
from infra.workload_labels import OWNER_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.inspection.containers import LogReference
    from athanor.inspection.estimate import End, Start
    from athanor.inspection.objects import Object, Snapshot
    from athanor.runs.cluster import Cluster

_TAIL_LINES = 400
"""Lines that are searched for the last error: after it come the reports of torchrun and of other ranks."""
_FAILURE = re.compile(r"athanor: attempt \d+ of \d+ ended with exit code (?P<code>\d+).*")
_GOES_ON = {"running", "restarting", "starting", "init", "scheduler"}
"""Causes of a job that is at work or about to be."""
_MOST_LOGS = 8
"""Jobs whose logs are read for their steps: each is a process here."""
_MOST_ENDS = 5
_MOST_PODS = 16


def why(cluster: Cluster, job_name: str, *, as_json: bool) -> None:
    """Print what is known of a run.

    Raises:
        RefusalError: its job does not exist (any more), or the cluster could not be asked.
    """
    now = datetime.now(UTC)
    snapshot = read(cluster.asked, cluster.namespace)
    case = _case(snapshot, job_name)
    finding = cause_of(case)
    start = None
    if estimate.start(case, finding.cause, ()):
        start = estimate.start(case, finding.cause, _ends(cluster, snapshot, now))
    before = _earlier_end(cluster, case) if finding.log is None and finding.cause in _GOES_ON else None
    last = [f"{finding.log.pod}: {line}" for line in _last_lines(cluster, finding.log)] if finding.log else []
    if as_json:
        more = {"before": before and before[0], "last_words": last}
        sys.stdout.write(json.dumps({**fields(case, finding, start), **more}) + "\n")
        return
    sys.stdout.writelines(f"{line}\n" for line in view(case, finding, start, now))
    if before:
        sys.stdout.writelines(f"{line}\n" for line in (f"before: {before[0]}", *before[1]))
    sys.stdout.writelines(f"  {line}\n" for line in last)
    if words := unread_words(snapshot):
        sys.stderr.write(f"{words}\n")


def _earlier_end(cluster: Cluster, case: Case) -> tuple[str, list[str]] | None:
    """Return how the start before the present one of a job ended with what helps, and its last words; None without.

    Earlier pods are gone, so this is what the shell around their programs printed (workloads/restarts.py).
    """
    try:
        lines = earlier_lines(cluster, case.job, case.pods)
    except RefusalError as error:
        return (f"the outcome of its last start is unknown: {error}", [])
    if not lines:
        return None
    failures = [(line, match) for line in lines if (match := _FAILURE.fullmatch(line.text))]
    if not failures:
        return ("its pods were stopped, evicted or lost; the program itself did not fail", [])
    failed, match = failures[-1]
    own = [line.text for line in lines if line.log == failed.log and line.time < failed.time]
    words = [part for text in own for part in _text_of(text).splitlines()][-_TAIL_LINES:]
    limits = [memory_limit(role.template, failed.log.container) for role in case.roles]
    limit = next(filter(None, limits), None)
    because, step = failure_and_fix(int(match["code"]), limit, case.commands, case.name)
    last = [f"  {failed.log.pod}: {printable(line)}" for line in last_words(words)]
    return (f"{failed.log.label}: its program failed at {failed.time[:19]}Z ({because}); next: {step}.", last)


def finding_of(cluster: Cluster, job_name: str) -> Finding:
    """Return why a job does not run, in the words of `athanor why`.

    Raises:
        RefusalError: it does not exist (any more), or the cluster could not be asked.
    """
    return cause_of(_case(read(cluster.asked, cluster.namespace), job_name))


def _case(snapshot: Snapshot, job_name: str) -> Case:
    """Return the case of a run, or of a job that a Pulumi program declares."""
    case = Case.of(snapshot, job_name, commands=ATHANOR)
    is_run = mark(case.job, OWNER_LABEL).startswith(f"{PROJECT}-")  # as `workloads.owner.owner_label` begins
    return case if is_run else replace(case, commands=DECLARED)


def _ends(cluster: Cluster, snapshot: Snapshot, now: datetime) -> list[End]:
    """Return the ends that jobs of the namespace have by their deadlines, and by the steps that they print."""
    running = estimate.running_jobs(snapshot)
    read_lines = partial(series_if_any, cluster)
    with ThreadPoolExecutor(max_workers=4) as pool:
        series = list(pool.map(read_lines, map(name_of, running[:_MOST_LOGS])))
    left = [(job, each.seconds_left()) for job, each in zip(running, series, strict=False)]
    by_steps = [estimate.by_steps(job, seconds, now) for job, seconds in left if seconds is not None]
    return [*by_steps, *(end for job in running if (end := estimate.deadline(snapshot, job)))]


def view(case: Case, finding: Finding, start: Start | None, now: datetime) -> list[str]:
    """Return the lines for a terminal."""
    count, _ = restarts(case.job)
    since = age(case.job["metadata"].get("creationTimestamp"), now)
    return [
        f"{case.name}  {job_phase(case.job)}  age {since}, {count} restarts, {_queue_words(case)}",
        *_pod_lines(case),
        f"why: {printable(finding.sentence)}",
        *(_start_lines(start, now) if start else []),
    ]


def _queue_words(case: Case) -> str:
    place = _place(case)
    return f"queue {case.queue}" + (f": number {place[0]} of {place[1]} that wait" if place else "")


def _place(case: Case) -> tuple[int, int] | None:
    return queues.position(case.snapshot, case.group) if case.group else None


def _pod_lines(case: Case) -> list[str]:
    lines = [_pod_line(case, pod) for pod in case.pods[:_MOST_PODS]]
    rest = len(case.pods) - len(lines)
    return [*lines, *([f"  {rest} more pods"] if rest else [])]


def _pod_line(case: Case, pod: Object) -> str:
    node = node_of(pod)
    return f"  {short_name(pod, case.job)}  {printable(state_words(pod))}" + (f"  {node}" if node else "")


def _start_lines(start: Start, now: datetime) -> list[str]:
    if start.at is not None:
        when = f"{'at the latest' if start.latest else 'about'} {_in(start.at, now)}"
        behind = f"; {start.ahead} waiting jobs come first and may take it" if start.ahead else ""
        return [f"start: room for all of it {when}, when {_names(start.after)} ended{behind}"]
    known = [f"  {end.name}: {_in(end.at, now)} ({end.by})" for end in start.ends[:_MOST_ENDS]]
    return ["start: not known" + ("; running jobs that are expected to end:" if known else ""), *known]


def _names(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _in(at: datetime, now: datetime) -> str:
    seconds = max(0, round((at - now).total_seconds()))
    return f"in {duration(seconds)} ({at.astimezone(UTC).strftime('%Y-%m-%d %H:%M UTC')})"


def fields(case: Case, finding: Finding, start: Start | None) -> dict[str, Any]:
    """Return the object that --json prints; times in RFC 3339, null for unknown values."""
    place = _place(case)
    return {
        "run": case.name,
        "job": name_of(case.job),
        "phase": job_phase(case.job),
        "cause": finding.cause,
        "because": finding.because,
        "next_step": finding.next_step,
        "queue": case.queue,
        "position": place[0] if place else None,
        "waiting": place[1] if place else None,
        "pods": [
            {"pod": name_of(pod), "role": mark(pod, TASK), "state": state_words(pod), "node": node_of(pod) or None}
            for pod in case.pods
        ],
        "start": _start_fields(start) if start else None,
        "unreadable": list(case.snapshot.unreadable),
    }


def _start_fields(start: Start) -> dict[str, Any]:
    return {
        "at": start.at.isoformat() if start.at else None,
        "latest": start.latest,
        "after": list(start.after),
        "ahead": start.ahead,
        "ends": [{"run": end.name, "at": end.at.isoformat(), "by": end.by} for end in start.ends],
    }


def _last_lines(cluster: Cluster, log: LogReference) -> list[str]:
    """Return a container's last lines about its end; nothing where its log was deleted with the pod."""
    words = ["logs", log.pod, f"--container={log.container}", f"--tail={_TAIL_LINES}", "--timestamps"]
    try:
        said = cluster.run(*words, *(["--previous"] if log.previous else []))
    except RefusalError:
        return []
    lines = [part for line in texts_of(said) for part in _text_of(line).splitlines()]
    return [printable(line) for line in last_words(lines)]


def _text_of(line: str) -> str:
    """Return the message of a line that is a JSON object with one, such as a traceback; any other line as it is."""
    try:
        parsed: object = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return line
    message = cast("dict[str, Any]", parsed).get("message") if isinstance(parsed, dict) else None
    return message if isinstance(message, str) and message else line
