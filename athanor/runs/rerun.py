"""`athanor rerun`: runs a job again as it is in the cluster, whether or not its folder has changed since.

A job that no longer exists in the cluster is created as the run's stack recorded it. The stack does not change: the job
keeps its name, and its fields keep the owner that the engine knows.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.backend import data_folder
from athanor.runs.elsewhere import host, of_another
from athanor.runs.job import ABORTED, ENDED, phase_of
from athanor.runs.recreate import check_allowed, create, recreate
from infra.errors import RefusalError
from workloads.pods import JOB_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from athanor.inspection.objects import Object
    from athanor.runs.cluster import Cluster


def rerun(cluster: Cluster, run: str, job_name: str, *, fresh: bool, force: bool) -> str:
    """Run a job again that has ended or is gone; return the folder that it writes to under /data/output.

    Args:
        cluster: The cluster, in the job's namespace.
        run: The run's name.
        job_name: The job's name.
        fresh: Give it another folder under /data/output, so that it finds no earlier checkpoint.
        force: Also if it has not ended: its pods are stopped first.

    Raises:
        RefusalError: there is no such job, it has not ended, this user may not, or the cluster refuses.
    """
    job = cluster.find(JOBS, job_name)
    folder = f"{job_name}-{secrets.token_hex(3)}" if fresh else None
    if job is None:
        return _create_again(cluster, run, job_name, folder)
    phase = phase_of(job)
    if phase not in {*ENDED, ABORTED} and not force:
        fix = f"wait until it has ended, `athanor stop {run}` first, or --force"
        raise RefusalError("run", run, f"is {phase}", fix)
    check_allowed(cluster.asked, cluster.namespace)
    to = folder or output_folder(job)
    recreate(cluster.asked, job, _drafts(), _say, lambda manifest: with_output_folder(manifest, to))
    return to


def _create_again(cluster: Cluster, run: str, job_name: str, folder: str | None) -> str:
    """Create a job from its run's stack; return the folder that it writes to, by default that of its first start."""
    from athanor.runs.stack import declared_job, open_run  # noqa: PLC0415 - the engine's SDK takes half a second to import

    declared = declared_job(open_run(run), job_name)
    if declared is None:
        limit = f"has no job in namespace {cluster.namespace}, and its stack has no record of one"
        raise RefusalError("run", run, limit, f"with the options that it had: {_first_command(run)}")
    if declared.server not in {"", cluster.server}:
        raise of_another(run, host(declared.server), cluster)
    check_allowed(cluster.asked, cluster.namespace, ["create"])
    to = folder or output_folder(declared.manifest)
    create(cluster.asked, with_output_folder(declared.manifest, to), declared.owner, _drafts())
    return to


def _first_command(run: str) -> str:
    """Return the words that start a run as at first, as far as its stack recorded them."""
    from athanor.runs.stack import open_run, outputs_of  # noqa: PLC0415 - the engine's SDK takes half a second to import

    arguments: dict[str, str] = json.loads(outputs_of(open_run(run)).get("arguments") or "{}")
    program = arguments.get("program") or arguments.get("command") or "COMMAND"
    return f"athanor run --name {shlex.quote(run)} --replace -- {program}"


def _drafts() -> Path:
    """Return the folder of jobs that are being created again."""
    return data_folder(os.environ) / "reruns"


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def output_folder(job: Object) -> str:
    """Return the folder of a job's files under /data/output: its name, unless it was run again fresh."""
    values = [each["value"] for each in _variables(job) if each["name"] == JOB_VARIABLE]
    return values[0] if values else job["metadata"]["name"]


def with_output_folder(job: Object, folder: str) -> Object:
    """Return a job, which is changed, whose files are in a folder under /data/output."""
    for each in _variables(job):
        if each["name"] == JOB_VARIABLE:
            each["value"] = folder
    return job


def _variables(job: Object) -> list[dict[str, Any]]:
    specs = [task["template"]["spec"] for task in job["spec"]["tasks"]]
    containers = [each for spec in specs for each in (*spec.get("initContainers", ()), *spec["containers"])]
    return [variable for each in containers for variable in each.get("env", ())]
