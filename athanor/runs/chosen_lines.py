"""`athanor logs --rank --tail --since --previous`: a part of what a run's pods write."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from athanor.runs.follow import print_logs_of
from athanor.runs.job import job_of, logs_of, number_of, pods_selector, readable_pods
from athanor.runs.past_lines import MOST_LINES, are_gone, past_lines, print_lines
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.past_lines import PastLine


def is_chosen(arguments: argparse.Namespace) -> bool:
    """Return whether a command line asks for a part."""
    chosen = (arguments.rank, arguments.tail, arguments.since)
    return arguments.previous or any(each is not None for each in chosen)


def print_chosen(arguments: argparse.Namespace, cluster: Cluster, job_name: str) -> None:
    """Print the lines that were asked for: of pods that are there from their nodes, of others from the log store.

    Raises:
        RefusalError: there is no such rank or no earlier attempt, or the lines cannot be had.
        BrokenPipeError: nobody reads this process's output any more.
    """
    name = None if arguments.rank is None else _pod_of_rank(cluster, job_name, arguments.rank)
    if arguments.previous or are_gone(cluster, job_name):
        pods = readable_pods(cluster, job_name)
        lines = past_lines(cluster, job_name, only=name)
        if arguments.previous:
            lines = _of_the_attempt_before(job_name, lines, pods)
        chosen = _latest(_since(lines, arguments.since), arguments.tail)
        print_lines(chosen, as_json=arguments.json)
        if len(lines) == MOST_LINES:
            sys.stderr.write(f"of the latest {MOST_LINES} lines in the log store\n")
        return
    pods = sorted(cluster.items("pods", pods_selector(job_name)), key=number_of)
    logs = [log for pod in pods for log in logs_of(job_name, pod) if name in {None, log.pod}]
    if name is not None and not logs:
        limit = f"its pod {name} has written nothing yet"
        raise RefusalError("--rank", arguments.rank, limit, "wait until it runs; `athanor why` says why")
    options = [] if arguments.tail is None else [f"--tail={arguments.tail}"]
    if arguments.since is not None:
        options.append(f"--since={arguments.since}s")
    print_logs_of(cluster, logs, options, follow=arguments.follow, as_json=arguments.json)


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
    created = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"].rstrip("Z") for pod in pods}
    before = [line for line in lines if line.time.partition(".")[0].rstrip("Z") < created.get(line.log.pod, "")]
    if not before:
        limit = "has no earlier attempt in the log store"
        raise RefusalError("--previous", job_name, limit, "omit it for what the present pods wrote")
    return before


def _since(lines: Sequence[PastLine], seconds: int | None) -> Sequence[PastLine]:
    if seconds is None:
        return lines
    begin = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return [line for line in lines if line.time.partition(".")[0].rstrip("Z") >= begin]


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
