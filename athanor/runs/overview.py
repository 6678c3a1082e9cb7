"""The list of all runs for `athanor runs`, from their stacks, jobs and logs, and from the local cache."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOB_NAME, JOBS, mark
from athanor.runs.background import meanwhile
from athanor.runs.cluster import Cluster
from athanor.runs.elsewhere import is_elsewhere
from athanor.runs.ending import exit_status
from athanor.runs.engine_error import EngineError
from athanor.runs.history import Seen
from athanor.runs.job import ENDED, phase_of
from athanor.runs.listing import ELSEWHERE, Listed, Run, describe, table
from athanor.runs.location import all_runs
from athanor.runs.pod_series import series_of
from athanor.runs.prices import gpu_prices
from athanor.runs.state_files import PROJECT
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL, OWNER_LABEL, owner_label

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from athanor.runs.state_files import KnownRun
    from infra.offers import PlatformOffers

_AT_ONCE = 8
"""Programs that are asked at a time: each engine or kubectl takes a core for part of a second."""


@dataclass(frozen=True, kw_only=True)
class _Around:
    """The context that all runs share."""

    cluster: Cluster
    jobs: dict[str, dict[str, Any]]
    """Jobs by the runs' names."""
    pods: dict[str, list[dict[str, Any]]]
    """Pods by the names of the jobs whose logs are read."""
    offers: PlatformOffers | None
    """None where the platform does not describe itself."""
    now: datetime


def run(arguments: argparse.Namespace) -> int:
    """Run `athanor runs`; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    return exit_status("runs", lambda: _run(arguments), as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    cluster = Cluster.of(arguments)
    # --namespace may name one whose platform is of an earlier release, without a description of itself.
    platform = None if arguments.namespace else cluster.platform()
    where = cluster if platform is None else cluster.within(platform.namespace)
    runs = overview(where, platform and platform.platform_offers, datetime.now(UTC))
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [json.dumps(each.to_json()) for each in runs] if arguments.json else table(runs, width)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def overview(cluster: Cluster, offers: PlatformOffers | None, now: datetime) -> list[Listed]:
    """Return all runs of the user, the latest first.

    Args:
        cluster: The cluster, in the workloads' namespace.
        offers: What its platform's nodes are; None if that is not known.
        now: Until when what has not ended is counted.

    Raises:
        RefusalError: the cluster does not answer, or not to this user.
    """
    known = meanwhile(all_runs)
    jobs = _jobs_of_runs(cluster)
    around = _Around(cluster=cluster, jobs=jobs, pods=_pods_of(cluster, jobs), offers=offers, now=now)
    with ThreadPoolExecutor(_AT_ONCE) as asking:
        runs = known()
        return list(asking.map(partial(_listed, around), runs.keys(), runs.values()))


def _pods_of(cluster: Cluster, jobs: Mapping[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the pods of all jobs whose lines are read, by the jobs' names, with one question."""
    names = [job["metadata"]["name"] for run, job in jobs.items() if not _is_read(run, job)]
    pods: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for pod in cluster.items("pods", f"{JOB_NAME} in ({','.join(names)})") if names else ():
        pods[mark(pod, JOB_NAME)].append(pod)
    return pods


def _is_read(run: str, job: dict[str, Any]) -> bool:
    """Return whether a job has ended, and what it printed was read since: it prints nothing more."""
    seen = Seen.last(run)
    was = seen.run if seen else {}
    same = was.get("created") == job["metadata"]["creationTimestamp"]
    return same and phase_of(job) in ENDED and was.get("phase") in ENDED


def _jobs_of_runs(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the jobs of runs by the runs' names; a program of somebody's may call its job like a run."""
    labels = ((job["metadata"]["labels"], job) for job in cluster.items(JOBS, f"{JOB_LABEL},{OWNER_LABEL}"))
    return {of[JOB_LABEL]: job for of, job in labels if of[OWNER_LABEL] == owner_label(PROJECT, of[JOB_LABEL])}


def _listed(around: _Around, name: str, known: KnownRun) -> Listed:
    job, before = around.jobs.get(name), Seen.of(name, known.updated)
    if before and job and before.outputs.get("job_name") != job["metadata"]["name"]:
        before = None  # started again, from another machine
    outputs = known.outputs if before is None else before.outputs
    seen = before or Seen(updated=known.updated, outputs=dict(_outputs(name) if outputs is None else outputs))
    away = is_elsewhere(seen.outputs, around.cluster)
    if job is not None and away and job["metadata"]["name"] != seen.outputs["job_name"]:
        job = None  # of somebody else's run, which is called alike
    is_whole = True
    if job is not None:
        seen, is_whole = _look(around, name, job, seen)
    if is_whole and seen != before and seen.outputs:
        seen.keep(name)
    run = Run(**seen.run) if seen.run else Run(run=name, phase="gone", job=seen.outputs.get("job_name", ""))
    arguments: dict[str, str] = json.loads(seen.outputs.get("arguments") or "{}")
    return Listed(
        run=run if job is not None else replace(run, phase=ELSEWHERE if away else "gone"),
        by=seen.outputs.get("by"),
        arguments=arguments,
        cost_cny=_cost(run, arguments, around.offers),
        step=seen.step,
        latest=seen.latest,
        settings=seen.settings,
        server=seen.outputs.get("server"),
        namespace=seen.outputs.get("namespace"),
    )


def _outputs(name: str) -> dict[str, str]:
    """Return the outputs of a run; nothing if they cannot be read: one broken run must not hide others."""
    from athanor.runs.stack import open_run, outputs_of  # noqa: PLC0415 - the engine's SDK takes half a second to import

    try:
        return outputs_of(open_run(name))
    except (EngineError, RefusalError):
        return {}


def _look(around: _Around, name: str, job: dict[str, Any], seen: Seen) -> tuple[Seen, bool]:
    """Return the present state of a run, and whether its log could be read.

    An ended one prints nothing more, so its numbers are read once.
    """
    run = describe(name, job, around.now)
    if run.job not in around.pods:
        return replace(seen, run=asdict(run)), True
    try:
        series = series_of(around.cluster, run.job, around.pods[run.job])
    except RefusalError:  # of a node that hangs, which hides no other run
        return replace(seen, run=asdict(run)), False
    if series.step is None:  # its pods are gone, or it has not printed anything since its last start
        return replace(seen, run=asdict(run)), True
    latest = {name: series.values(name)[-1] for name in series.names()}
    settings = {**series.settings} or seen.settings  # in a long log they may be far up
    return replace(seen, run=asdict(run), step=series.step, latest=latest, settings=settings), True


def _cost(run: Run, arguments: dict[str, str], offers: PlatformOffers | None) -> tuple[float, float] | None:
    if not run.gpu_hours or offers is None:
        return None
    prices = gpu_prices(offers, arguments.get("pool"))
    return None if prices is None else (round(run.gpu_hours * prices[0], 2), round(run.gpu_hours * prices[1], 2))
