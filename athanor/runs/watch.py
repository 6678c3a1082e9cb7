"""`athanor watch`: the progress of a run, from the lines that its program prints."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.job import (
    COMPLETED,
    ENDED,
    exec_words,
    has_ended,
    has_started,
    message_of,
    number_of,
    phase_of,
    pods_selector,
    without_job,
)
from athanor.runs.listing import describe, duration
from athanor.runs.overlooked import Reminder
from athanor.runs.past_lines import EarlierSteps
from athanor.runs.patience import Patience
from athanor.runs.pod_series import series_if_any
from athanor.runs.series import sparkline

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.listing import Run
    from athanor.runs.series import Series

# nvidia-smi(1), "SELECTIVE QUERY OPTIONS". The device plugin's containers have the program from the driver.
_GPU_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_GPU_QUERY_SECONDS = 5


def gpu_use(cluster: Cluster, pods: Sequence[dict[str, Any]]) -> list[int]:
    """Return the use of each GPU of the first running pod in percent; none where nobody says.

    Args:
        cluster: The cluster, in the pods' namespace.
        pods: Of one job, in the order of their numbers.
    """
    pod = next((pod for pod in pods if "status" in pod and has_started(pod)), None)
    if pod is None:
        return []
    try:
        done = subprocess.run(
            [*exec_words(cluster, pod), *_GPU_QUERY], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=_GPU_QUERY_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return []
    lines = done.stdout.split()
    return [int(line) for line in lines] if done.returncode == 0 and all(map(_is_percent, lines)) else []


def _is_percent(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:4]) <= 100


_LOOK_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[J"


def watch(cluster: Cluster, run: str, job_name: str, *, as_json: bool) -> int:
    """Show a run until it ends, or once where nobody looks at a terminal or a program reads; return 1 if it failed.

    Raises:
        RefusalError: the job does not exist (any more), or the cluster does not answer; while a run is shown until it
            ends, for some minutes.
    """
    live = sys.stdout.isatty() and not as_json
    patience = Patience(lambda line: sys.stderr.write(f"{line}\n"))
    earlier = EarlierSteps(cluster, job_name)
    reminder = Reminder(cluster.asked, cluster.namespace, job_name)
    try:
        seen = _look(cluster, run, job_name, earlier)
        while True:
            if seen is None:
                raise without_job(cluster, job_name)
            lines = [json.dumps(seen.to_json())] if as_json else seen.lines(get_terminal_size() if live else None)
            sys.stdout.write((_CLEAR if live else "") + "".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
            if has_ended(seen.job) or not live:
                return 0 if phase_of(seen.job) not in ENDED - {COMPLETED} else 1
            if not seen.pods:
                reminder.look()
            time.sleep(_LOOK_SECONDS)
            seen = patience.answer(partial(_look, cluster, run, job_name, earlier))
    except KeyboardInterrupt:
        return 0


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """The present state of a run."""

    job: dict[str, Any]
    run: Run
    pods: list[dict[str, Any]]
    series: Series
    gpu_use: Sequence[int]

    def lines(self, screen: os.terminal_size | None) -> list[str]:
        message = message_of(self.job)
        if screen is None:
            return view(self.run, message, self.pods, self.series, self.gpu_use)
        return fitted(_progress_lines(self.run, message, self.series, self.gpu_use), self.pods, screen)

    def to_json(self) -> dict[str, Any]:
        described = fields(self.run, message_of(self.job), self.pods, self.series)
        return {**described, "gpu_use": self.gpu_use or None}


def _look(cluster: Cluster, run: str, job_name: str, earlier: EarlierSteps) -> _Seen | None:
    """Return how a run does; None if its job does not exist (any more).

    Raises:
        RefusalError: the cluster does not answer, or not to this user.
    """
    job = cluster.find(JOBS, job_name)
    if job is None:
        return None
    pods, described = cluster.items("pods", pods_selector(job_name)), describe(run, job, datetime.now(UTC))
    return _Seen(
        job=job,
        run=described,
        pods=pods,
        series=earlier.and_now(job, pods, series_if_any(cluster, job_name, pods)),
        gpu_use=gpu_use(cluster, sorted(pods, key=number_of)) if described.gpus else [],
    )


def view(run: Run, message: str, pods: list[dict[str, Any]], series: Series, gpu_use: Sequence[int] = ()) -> list[str]:
    """Return the lines that show a run: its phase, its progress, its curves, its GPUs, and where its pods are."""
    return [*_progress_lines(run, message, series, gpu_use), *_pod_lines(pods)]


def fitted(progress: Sequence[str], pods: Sequence[dict[str, Any]], screen: os.terminal_size) -> list[str]:
    """Return the lines about a run that a screen has room for, with the cursor below them: not all pods may be."""
    lines = [*progress, *_first_pod_lines(pods, screen.lines - 1 - len(progress))]
    return [line if len(line) <= screen.columns else f"{line[: screen.columns - 1]}…" for line in lines]


def _progress_lines(run: Run, message: str, series: Series, gpu_use: Sequence[int]) -> list[str]:
    times = f"waited {duration(run.waited_seconds)}, ran {duration(run.ran_seconds)}"
    lines = [f"{run.run}  {run.phase}  {times}, {run.gpus or 0} GPUs  {message}".rstrip()]
    if series.step is not None:
        lines += [_progress(series), *(_curve(series, name) for name in _chosen_names(series))]
    if gpu_use:
        lines.append(f"  GPUs of the first pod: {' '.join(f'{percent} %' for percent in gpu_use)}")
    return lines


def _pod_lines(pods: Iterable[dict[str, Any]]) -> list[str]:
    return [f"  {pod['pod']}  {pod['phase']}  {pod['node'] or 'no node yet'}" for pod in _pods(pods)]


def _first_pod_lines(pods: Sequence[dict[str, Any]], most: int) -> list[str]:
    """Return so many lines about pods, at least one; where not all have room, those that do not run come first."""
    if len(pods) <= max(0, most):
        return _pod_lines(pods)
    is_well = [pod.get("status", {}).get("phase") in {"Running", "Succeeded"} for pod in pods]
    ill, well = ([pod for pod, each in zip(pods, is_well, strict=True) if each == state] for state in (False, True))
    first = [*_pod_lines(ill), *_pod_lines(well)][: max(0, most - 1)]
    return [*first, f"  … and {len(pods) - len(first)} more pods"]


def fields(run: Run, message: str, pods: list[dict[str, Any]], series: Series) -> dict[str, Any]:
    """Return the object that --json prints for a run; null for unknown values."""
    return {
        **run.to_json(),
        "message": message,
        "step": series.step,
        "total_steps": series.total_steps,
        "steps_per_second": series.steps_per_second(),
        "seconds_left": series.seconds_left(),
        "latest": {name: series.values(name)[-1] for name in series.names()},
        "pods": _pods(pods),
    }


def _pods(pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return name, phase and node of each pod, by its number."""
    in_order = sorted(pods, key=number_of)
    return [
        {
            "pod": pod["metadata"]["name"],
            "phase": pod.get("status", {}).get("phase", "Pending"),
            "node": pod["spec"].get("nodeName"),
        }
        for pod in in_order
    ]


def _progress(series: Series) -> str:
    of = f" of {series.total_steps}" if series.total_steps else ""
    pace, left = series.steps_per_second(), series.seconds_left()
    speed = f", {pace:.3g} steps/s" if pace else ""
    rest = f", {duration(round(left))} left" if left is not None else ""
    return f"  step {series.step}{of}{speed}{rest}"


def _chosen_names(series: Series) -> list[str]:
    """Return the losses, rates and the MFU among the names; where there are none, the first few of all."""
    names = series.names()
    chosen = [name for name in names if name == "mfu" or name.endswith(("loss", "_per_second"))]
    return chosen or names[:4]


def _curve(series: Series, name: str) -> str:
    values = series.values(name)
    return f"  {name:<20} {values[-1]:<10.4g} {sparkline(values)}"
