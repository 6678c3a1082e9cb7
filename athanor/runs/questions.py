"""Read-only commands about runs that the cluster answers: `athanor logs`, `watch`, `curves` and `why`.

They do not import the engine's SDK: they are used often, and should answer within a second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable  # noqa: TC003 - of a table that is annotated
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.runs.cluster import Cluster
from athanor.runs.curves import COLOURS, fields, page
from athanor.runs.ending import exit_status
from athanor.runs.location import locate_to_read
from athanor.runs.logs import logs
from athanor.runs.past_lines import whole_series
from athanor.runs.watch import watch
from athanor.runs.why import why
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse

    from athanor.runs.series import Series


def run(arguments: argparse.Namespace) -> int:
    """Answer one of the questions; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    answer = _QUESTIONS[arguments.command]
    return exit_status(arguments.command, lambda: answer(arguments, Cluster.of(arguments)), as_json=arguments.json)


def _logs(arguments: argparse.Namespace, cluster: Cluster) -> int:
    return logs(arguments, *locate_to_read(cluster, arguments.run))


def _watch(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate_to_read(cluster, arguments.run)
    return watch(where, arguments.run, job_name, as_json=arguments.json)


def _curves(arguments: argparse.Namespace, cluster: Cluster) -> int:
    if len(set(arguments.runs)) > len(COLOURS):
        raise RefusalError("RUN", len(set(arguments.runs)), f"a page shows at most {len(COLOURS)} runs", "name fewer")
    runs = {run: _with_points(cluster, run) for run in arguments.runs}
    if arguments.json:
        sys.stdout.writelines(f"{json.dumps(fields(run, series))}\n" for run, series in runs.items())
        return 0
    Path(arguments.output).write_text(page(runs), encoding="utf-8")
    sys.stdout.write(f"{arguments.output}\n")
    return 0


def _with_points(cluster: Cluster, run: str) -> Series:
    """Return the metrics that a run has printed.

    Raises:
        RefusalError: nothing, or its pods are gone, and their lines with them.
    """
    series = whole_series(*locate_to_read(cluster, run))
    if not series.points:
        limit = "has printed no lines of JSON with a step and a number"
        raise RefusalError("run", run, limit, 'print such as {"step": 10, "loss": 0.3}, or wait until it runs')
    return series


def _why(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate_to_read(cluster, arguments.run)
    why(where, job_name, as_json=arguments.json)
    return 0


_QUESTIONS: dict[str, Callable[[argparse.Namespace, Cluster], int]] = {
    "logs": _logs,
    "watch": _watch,
    "curves": _curves,
    "why": _why,
}
