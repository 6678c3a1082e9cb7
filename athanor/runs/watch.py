"""`athanor watch` and `athanor compare`: how runs do, from the lines that their programs print."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from athanor.runs.job import ABORTED, COMPLETED, ENDED, job_of, main_container, message_of, phase_of, readable_pods
from athanor.runs.listing import describe, duration
from athanor.runs.series import LOSSES, Series, read_series, sparkline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from athanor.runs.cluster import Cluster
    from athanor.runs.listing import Run

_LOOK_SECONDS = 2.0
_LAST_LINES = 5000
_CLEAR = "\x1b[H\x1b[J"


def watch(cluster: Cluster, run: str, job_name: str, *, as_json: bool) -> int:
    """Show a run until it ends, or once where nobody looks at a terminal or a program reads; return 1 if it failed.

    Raises:
        RefusalError: the job does not exist (any more).
    """
    live = sys.stdout.isatty() and not as_json
    try:
        while True:
            job, pods = job_of(cluster, job_name), cluster.items("pods", f"volcano.sh/job-name={job_name}")
            described, series = describe(run, job, datetime.now(UTC)), series_of(cluster, job_name)
            if as_json:
                lines = [json.dumps(fields(described, message_of(job), pods, series))]
            else:
                lines = view(described, message_of(job), pods, series)
            sys.stdout.write((_CLEAR if live else "") + "".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
            phase = phase_of(job)
            if phase in ENDED or phase == ABORTED or not live:
                return 0 if phase not in ENDED - {COMPLETED} else 1
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return 0


def series_of(cluster: Cluster, job_name: str) -> Series:
    """Return what the first pod of a job has printed of its steps; nothing if it has no logs (any more)."""
    pods = readable_pods(cluster, job_name)
    if not pods:
        return Series(points=(), total_steps=None)
    words = ["logs", "--timestamps", f"--tail={_LAST_LINES}", f"--container={main_container(pods[0])}"]
    done = subprocess.run(
        [*cluster.prefix, *words, pods[0]["metadata"]["name"]],
        capture_output=True, text=True, errors="replace", check=False, timeout=60,
    )  # fmt: skip
    return read_series(done.stdout)


def view(run: Run, message: str, pods: list[dict[str, Any]], series: Series) -> list[str]:
    """Return the lines that show a run: its phase, its progress, its curves, and where its pods are."""
    times = f"waited {duration(run.waited_seconds)}, ran {duration(run.ran_seconds)}"
    lines = [f"{run.run}  {run.phase}  {times}, {run.gpus or 0} GPUs  {message}".rstrip()]
    if series.step is not None:
        lines += [_progress(series), *(_curve(series, name) for name in _chosen_names(series))]
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
    in_order = sorted(pods, key=lambda each: (len(each["metadata"]["name"]), each["metadata"]["name"]))
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


def comparison(names: tuple[str, str], arguments: tuple[str, str], series: tuple[Series, Series]) -> list[str]:
    """Return the lines that show what two runs differ in, and how they did.

    Args:
        names: The runs.
        arguments: What each recorded, as JSON; empty for a run of an earlier release.
        series: What each printed.
    """
    left, right = (_fields(text) for text in arguments)
    differing = [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
    rows = [("", *names), *((name, _cell(left, name), _cell(right, name)) for name in differing)]
    rows.append(("latest step", _step(series[0]), _step(series[1])))
    metrics = sorted({*series[0].names(), *series[1].names()})
    rows += [(f"{metric}, latest", _latest(series[0], metric), _latest(series[1], metric)) for metric in metrics]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    losses = [name for name in LOSSES if series[0].values(name) and series[1].values(name)][:1]
    curves = [
        f"{name}: {loss} {sparkline(each.values(loss))}"
        for loss in losses
        for name, each in zip(names, series, strict=True)
    ]
    same = len({*left, *right}) - len(differing)
    return [*lines, *curves, f"{same} more arguments are the same"] if same else [*lines, *curves]


def comparison_fields(
    names: tuple[str, str], arguments: tuple[str, str], series: tuple[Series, Series]
) -> dict[str, Any]:
    """Return what --json prints of two runs: by name a pair of values, null where one has none."""
    left, right = (_fields(text) for text in arguments)
    metrics = sorted({*series[0].names(), *series[1].names()})
    return {
        "runs": names,
        "arguments": {
            name: (left.get(name), right.get(name))
            for name in sorted({*left, *right})
            if left.get(name) != right.get(name)
        },
        "step": tuple(each.step for each in series),
        "latest": {name: tuple(_last(each, name) for each in series) for name in metrics},
    }


def _last(series: Series, name: str) -> float | None:
    return (series.values(name) or [None])[-1]


def _fields(text: str) -> Mapping[str, Any]:
    return json.loads(text) if text else {}


def _cell(fields: Mapping[str, Any], name: str) -> str:
    return str(fields[name]) if name in fields else "-"


def _step(series: Series) -> str:
    return "-" if series.step is None else str(series.step)


def _latest(series: Series, name: str) -> str:
    values = series.values(name)
    return f"{values[-1]:.4g}" if values else "-"
