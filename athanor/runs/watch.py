"""`athanor watch`: how a run does, from the lines that its program prints."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from athanor.runs.gpu_use import gpu_use
from athanor.runs.job import (
    ABORTED,
    COMPLETED,
    ENDED,
    job_of,
    message_of,
    number_of,
    phase_of,
    pods_selector,
)
from athanor.runs.listing import describe, duration
from athanor.runs.pod_series import series_if_any
from athanor.runs.series import LOSSES, sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.listing import Run
    from athanor.runs.series import Series

_LOOK_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[J"


def watch(cluster: Cluster, run: str, job_name: str, *, as_json: bool) -> int:
    """Show a run until it ends, or once where nobody looks at a terminal or a program reads; return 1 if it failed.

    Raises:
        RefusalError: the job does not exist (any more).
    """
    live = sys.stdout.isatty() and not as_json
    try:
        while True:
            job, pods = job_of(cluster, job_name), cluster.items("pods", pods_selector(job_name))
            described, series = describe(run, job, datetime.now(UTC)), series_if_any(cluster, job_name)
            use = gpu_use(cluster, sorted(pods, key=number_of)) if described.gpus else []
            if as_json:
                lines = [json.dumps({**fields(described, message_of(job), pods, series), "gpu_use": use or None})]
            else:
                lines = view(described, message_of(job), pods, series, use)
            sys.stdout.write((_CLEAR if live else "") + "".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
            phase = phase_of(job)
            if phase in ENDED or phase == ABORTED or not live:
                return 0 if phase not in ENDED - {COMPLETED} else 1
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return 0


def view(run: Run, message: str, pods: list[dict[str, Any]], series: Series, gpu_use: Sequence[int] = ()) -> list[str]:
    """Return the lines that show a run: its phase, its progress, its curves, its GPUs, and where its pods are."""
    times = f"waited {duration(run.waited_seconds)}, ran {duration(run.ran_seconds)}"
    lines = [f"{run.run}  {run.phase}  {times}, {run.gpus or 0} GPUs  {message}".rstrip()]
    if series.step is not None:
        lines += [_progress(series), *(_curve(series, name) for name in _chosen_names(series))]
    if gpu_use:
        lines.append(f"  GPUs of the first pod: {' '.join(f'{percent} %' for percent in gpu_use)}")
    for pod in _pods(pods):
        lines.append(f"  {pod['pod']}  {pod['phase']}  {pod['node'] or 'no node yet'}")
    return lines


def fields(run: Run, message: str, pods: list[dict[str, Any]], series: Series) -> dict[str, Any]:
    """Return what --json prints of a run; null where something is not known."""
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


def _pods(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
    """Return the losses and rates among the names; where there are none, the first few of all."""
    names = series.names()
    chosen = [name for name in names if name in LOSSES or name.endswith("_per_second")]
    return chosen or names[:4]


def _curve(series: Series, name: str) -> str:
    values = series.values(name)
    return f"  {name:<20} {values[-1]:<10.4g} {sparkline(values)}"
