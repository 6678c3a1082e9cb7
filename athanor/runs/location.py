"""Where a run is: the namespace of its job, and the job's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.objects import JOBS
from athanor.runs.elsewhere import check_is_here
from athanor.runs.history import Seen
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster


def locate(cluster: Cluster, run: str) -> tuple[Cluster, str]:
    """Return the cluster in a run's namespace, and the name of its job.

    Raises:
        RefusalError: the run does not exist, was never started, or belongs to another cluster.
    """
    # A tenth of a second of the processor, which questions about what runs here need not spend.
    from athanor.runs.stack import open_run, outputs_of  # noqa: PLC0415

    recorded = outputs_of(open_run(run))
    if "job_name" not in recorded:
        raise RefusalError("run", run, "was never started", f"`athanor delete {run}`, and run it again")
    where = cluster.within(recorded["namespace"])
    check_is_here(where, run, recorded)
    return where, recorded["job_name"]


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
