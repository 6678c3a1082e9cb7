"""`athanor logs`: the logs of a run's pods, including those of earlier containers; all of them, or a part."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.follow import follow_to_the_end, print_logs_of
from athanor.runs.job import job_of, logs_of, number_of, pods_selector
from athanor.runs.past_lines import (
    MOST_LINES,
    are_gone,
    created_times,
    earlier_lines,
    past_lines,
    print_lines,
    say_unreadable,
    second_of,
    written_before,
)
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.past_lines import PastLine


def logs(arguments: argparse.Namespace, cluster: Cluster, job_name: str) -> int:
    """Print the lines that were asked for: of pods that are there from their nodes, of others from the log store.

    Returns:
        The exit status: with --follow and no part of it, that of the program which failed.

    Raises:
        RefusalError: there is no such rank or no earlier attempt, or the lines cannot be read.
        BrokenPipeError: nobody reads this process's output any more.
    """
    name = None if arguments.rank is None else _pod_of_rank(cluster, job_name, arguments.rank)
    job, pods = cluster.find(JOBS, job_name), cluster.items("pods", pods_selector(job_name))
    gone = job is None or are_gone(job, pods)
    is_whole = name is None and arguments.tail is None and arguments.since is None
    to_the_end = arguments.follow and is_whole and not arguments.previous
    if arguments.previous:
        stored = _of_the_attempt_before(job_name, past_lines(cluster, job_name, only=name), pods)
    elif gone and not to_the_end:
        stored = past_lines(cluster, job_name, only=name)
    else:
        stored = _earlier(cluster, job, pods, name) if job and arguments.tail is None else []
    lines = _latest(_since(stored, arguments.since), arguments.tail)
    print_lines(lines, as_json=arguments.json)
    if len(stored) == MOST_LINES:
        sys.stderr.write(f"athanor: of deleted pods, these are the latest {MOST_LINES} lines\n")
    if to_the_end:
        return follow_to_the_end(cluster, arguments.run, job_name, as_json=arguments.json)
    if not arguments.previous and not gone:
        _print_present(arguments, cluster, (job_name, name), pods, may_be_none=bool(lines))
    return 0


def _earlier(cluster: Cluster, job: dict[str, Any], pods: Sequence[dict[str, Any]], name: str | None) -> list[PastLine]:
    """Return the logs of a job's pods, or of one, from before their restart, as far as they can be read."""
    try:
        return [line for line in earlier_lines(cluster, job, pods) if name in {None, line.log.pod}]
    except RefusalError as error:
        say_unreadable(error)
        return []


def _print_present(
    arguments: argparse.Namespace,
    cluster: Cluster,
    names: tuple[str, str | None],
    pods: Sequence[dict[str, Any]],
    *,
    may_be_none: bool,
) -> None:
    job_name, name = names
    present = [log for pod in sorted(pods, key=number_of) for log in logs_of(job_name, pod) if name in {None, log.pod}]
    if not present and not may_be_none:
        limit = "has no pods with logs yet" if name is None else f"has written nothing yet in its pod {name}"
        raise RefusalError("run", job_name, limit, "wait until it runs; `athanor why` says why")
    options = [] if arguments.tail is None else [f"--tail={arguments.tail}"]
    if arguments.since is not None:
        options.append(f"--since={arguments.since}s")
    print_logs_of(cluster, present, options, follow=arguments.follow, as_json=arguments.json)


def _pod_of_rank(cluster: Cluster, job_name: str, rank: int) -> str:
    from athanor.runs.ranks import pod_names_by_rank  # noqa: PLC0415 - the engine's SDK, which other questions spare

    names = pod_names_by_rank(job_of(cluster, job_name))
    if rank >= len(names):
        limit = f"the run has {len(names)} {'rank' if len(names) == 1 else 'ranks'}, the first is 0"
        raise RefusalError("--rank", rank, limit, f"use 0 to {len(names) - 1}")
    return names[rank]


def _of_the_attempt_before(job_name: str, lines: Sequence[PastLine], pods: Sequence[dict[str, Any]]) -> list[PastLine]:
    """Return the lines that pods of the same names wrote before the present ones were created.

    Raises:
        RefusalError: there are none.
    """
    before = written_before(created_times(pods), lines)
    if not before:
        limit = "has no earlier attempt in the log store"
        raise RefusalError("--previous", job_name, limit, "omit it for the logs of the current pods")
    return before


def _since(lines: Sequence[PastLine], seconds: int | None) -> Sequence[PastLine]:
    if seconds is None:
        return lines
    begin = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return [line for line in lines if second_of(line.time) >= begin]


def _latest(lines: Sequence[PastLine], number: int | None) -> Sequence[PastLine]:
    """Return the last lines of each pod, in their order."""
    if number is None:
        return lines
    left: dict[str, int] = {}
    kept: list[PastLine] = []
    for line in reversed(lines):
        left[line.log.pod] = left.get(line.log.pod, number) - 1
        if left[line.log.pod] >= 0:
            kept.append(line)
    return kept[::-1]
