"""`athanor rerun`: a run's job once more, as the cluster has it, whether or not its folder is still the same.

Its stack is left alone: the job keeps its name, and its fields the owner that the engine knows.
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Any

from athanor.runs.backend import data_folder
from athanor.runs.job import ABORTED, ENDED, job_of, phase_of
from athanor.runs.recreate import check_allowed, recreate
from infra.errors import RefusalError

if TYPE_CHECKING:
    from athanor.inspection.objects import Object
    from athanor.runs.cluster import Cluster

_JOB_VARIABLE = "ATHANOR_JOB"
"""Environment variable of every pod: the folder of its files under /data/output (workloads/volcano_job.py)."""


def rerun(cluster: Cluster, run: str, job_name: str, *, fresh: bool, force: bool) -> str:
    """Run an ended job again; return the folder that it writes to under /data/output.

    Args:
        cluster: The cluster, in the job's namespace.
        run: The run's name.
        job_name: The job's name.
        fresh: Give it another folder under /data/output, so that it finds no checkpoint of before.
        force: Also if it has not ended: its pods are stopped first.

    Raises:
        RefusalError: there is no such job, it has not ended, this user may not, or the cluster refuses.
    """
    job = job_of(cluster, job_name)
    phase = phase_of(job)
    if phase not in {*ENDED, ABORTED} and not force:
        fix = f"wait until it has ended, `athanor stop {run}` first, or --force"
        raise RefusalError("run", run, f"is {phase}", fix)
    asked = cluster.asked
    check_allowed(asked, cluster.namespace)
    folder = f"{job_name}-{secrets.token_hex(3)}" if fresh else output_folder(job)
    recreate(
        asked, job, data_folder(os.environ) / "reruns", _say, lambda manifest: with_output_folder(manifest, folder)
    )
    return folder


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def output_folder(job: Object) -> str:
    """Return the folder of a job's files under /data/output: its name, unless it was run again fresh."""
    values = [each["value"] for each in _variables(job) if each["name"] == _JOB_VARIABLE]
    return values[0] if values else job["metadata"]["name"]


def with_output_folder(job: Object, folder: str) -> Object:
    """Return a job, which is changed, whose files are in a folder under /data/output."""
    for each in _variables(job):
        if each["name"] == _JOB_VARIABLE:
            each["value"] = folder
    return job


def _variables(job: Object) -> list[dict[str, Any]]:
    specs = [task["template"]["spec"] for task in job["spec"]["tasks"]]
    containers = [each for spec in specs for each in (*spec.get("initContainers", ()), *spec["containers"])]
    return [variable for each in containers for variable in each.get("env", ())]
