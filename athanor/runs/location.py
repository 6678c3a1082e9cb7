"""The location of a run: the namespace and the name of its job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from athanor.inspection.objects import JOBS
from athanor.runs.backend import backend_of_runs
from athanor.runs.elsewhere import check_is_here
from athanor.runs.engine_error import EngineError
from athanor.runs.history import Seen
from athanor.runs.state_files import PROJECT, KnownRun, runs_in_folder
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster

_OF_OBJECTS = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""Names that an object and a label may have; kubectl takes others for options or other kinds."""


def all_runs() -> dict[str, KnownRun]:
    """Return the runs in the user's backend by their names, the latest first.

    Raises:
        RefusalError: as `backend_of_runs`.
        EngineError: the backend cannot be read.
    """
    runs = runs_in_folder(backend_of_runs()[0], PROJECT)
    if runs is None:
        from athanor.runs.stack import listed_runs  # noqa: PLC0415 - the engine's SDK takes half a second to import

        runs = listed_runs()
    return dict(sorted(runs.items(), key=lambda run: run[1].updated, reverse=True))


def locate(cluster: Cluster, run: str) -> tuple[Cluster, str]:
    """Return the cluster in a run's namespace, and the name of its job.

    Raises:
        RefusalError: the run does not exist, was never started, or belongs to another cluster.
        EngineError: the user's backend cannot be read, and no job here has that name.
    """
    # A tenth of a second of the processor, which questions about what runs here need not spend.
    from athanor.runs.stack import open_run, outputs_of  # noqa: PLC0415

    try:
        recorded = outputs_of(open_run(run))
    except (EngineError, RefusalError):
        # A colleague's, or one that a Pulumi program declares: its stack is elsewhere, and its job is here.
        if (declared := job_of_others(cluster, run)) is None:
            raise
        return declared
    if "job_name" not in recorded:
        raise RefusalError("run", run, "was never started", f"`athanor delete {run}`, and run it again")
    where = cluster.within(recorded["namespace"])
    check_is_here(where, run, recorded)
    return where, recorded["job_name"]


def job_of_others(cluster: Cluster, name: str) -> tuple[Cluster, str] | None:
    """Return the cluster in the namespace of a job that no stack of this user's runs declares, and the job's name.

    Args:
        cluster: Asked in its namespace; if the command line names none, in its platform's, too.
        name: The job's, with or without the digits after it.

    Raises:
        RefusalError: several jobs are called so, or the cluster does not answer.
    """
    if job_name := _job_in(cluster, name):
        return cluster, job_name
    if cluster.has_typed_namespace:
        return None
    try:
        where = cluster.within(cluster.platform().namespace)
    except RefusalError:  # there is none, or this user may not ask
        return None
    job_name = None if where.namespace == cluster.namespace else _job_in(where, name)
    return (where, job_name) if job_name else None


def _job_in(cluster: Cluster, name: str) -> str | None:
    if not _OF_OBJECTS.fullmatch(name):
        return None
    if cluster.find(JOBS, name) is not None:
        return name
    names = sorted(job["metadata"]["name"] for job in cluster.items(JOBS, f"{JOB_LABEL}={name}"))
    if len(names) > 1:
        limit = f"is the name of several jobs of namespace {cluster.namespace}"
        raise RefusalError("run", name, limit, f"write the one that you mean: {', '.join(names)}")
    return names[0] if names else None


def locate_to_read(cluster: Cluster, run: str) -> tuple[Cluster, str]:
    """Return the same as `locate`, without the engine for a run that this machine has seen and whose job is there.

    Another job of the run would have another name, and this one would be gone.

    Raises:
        RefusalError: see `locate`.
    """
    seen = Seen.last(run)
    if seen and "job_name" in seen.outputs:
        where, job_name = cluster.within(seen.outputs["namespace"]), seen.outputs["job_name"]
        job = where.find(JOBS, job_name)
        if job and job["metadata"].get("labels", {}).get(JOB_LABEL) == run:
            return where, job_name
    return locate(cluster, run)
