"""`athanor runs`, `athanor logs` and `athanor delete`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from athanor.runs.cluster import Cluster
from athanor.runs.follow import follow_to_the_end, print_logs
from athanor.runs.stack import EngineError, all_runs, open_run, outputs_of, remove
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL

if TYPE_CHECKING:
    import argparse

FAILED = 1


def run(arguments: argparse.Namespace) -> int:
    """Run one of the commands; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    command = {"runs": _list, "logs": _logs, "delete": _delete}[arguments.command]
    try:
        return command(arguments, Cluster.of(arguments))
    except (RefusalError, EngineError, OSError) as error:
        sys.stderr.write(f"athanor {arguments.command}: {error}\n")
        return FAILED


def _list(arguments: argparse.Namespace, cluster: Cluster) -> int:
    # --namespace may name one whose platform is of an earlier release, without a description of itself.
    where = cluster if arguments.namespace else cluster.within(cluster.platform().namespace)
    jobs = {job["metadata"]["labels"][JOB_LABEL]: job for job in where.items("jobs.batch.volcano.sh", JOB_LABEL)}
    for name in all_runs():
        job = jobs.get(name)
        row: dict[str, str] = {"run": name, "phase": "gone", "created": "", "job": ""}
        if job:
            row["phase"] = job.get("status", {}).get("state", {}).get("phase", "Pending")
            row["created"], row["job"] = job["metadata"]["creationTimestamp"], job["metadata"]["name"]
        line = json.dumps(row) if arguments.json else "  ".join(row.values())
        sys.stdout.write(f"{line.rstrip()}\n")
    return 0


def _logs(arguments: argparse.Namespace, cluster: Cluster) -> int:
    recorded = outputs_of(open_run(arguments.run))
    if "job_name" not in recorded:
        limit, fix = "was never started", f"`athanor delete {arguments.run}`, and run it again"
        raise RefusalError("run", arguments.run, limit, fix)
    where = cluster.within(recorded["namespace"])
    if arguments.follow:
        return follow_to_the_end(where, arguments.run, recorded["job_name"])
    print_logs(where, recorded["job_name"])
    return 0


def _delete(arguments: argparse.Namespace, cluster: Cluster) -> int:
    with cluster.variables() as variables:
        remove(open_run(arguments.run, variables))
    sys.stderr.write(f"deleted: run {arguments.run}\n")
    return 0
