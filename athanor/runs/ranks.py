"""The ranks of a run, and the pod of each, according to its job."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from athanor.runs.job import HELPERS, job_of, running_pods
from infra.errors import RefusalError
from infra.metrics_access import METRICS_PORT_NAME
from workloads.volcano_job import pod_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

_WITHOUT_RANKS = {"launcher", *HELPERS}
_ELASTIC = "rendezvous"
"""Role that elastic jobs alone have."""


def pod_of_rank(cluster: Cluster, job_name: str, rank: int) -> dict[str, Any]:
    """Return the running pod that computes a rank.

    Raises:
        RefusalError: the job does not exist, is elastic, or has no such rank, or the rank's pod does not run.
    """
    job = job_of(cluster, job_name)
    names = pod_names_by_rank(job)
    if rank >= len(names):
        limit = f"the run has {len(names)} {'rank' if len(names) == 1 else 'ranks'}, the first is 0"
        raise RefusalError("--rank", rank, limit, f"use 0 to {len(names) - 1}")
    pods = {pod["metadata"]["name"]: pod for pod in running_pods(cluster, job)}
    if names[rank] not in pods:
        running = [number for number, name in enumerate(names) if name in pods]
        limit = f"its pod {names[rank]} does not run; running ranks: {_in_words(running)}"
        raise RefusalError("--rank", rank, limit, "use one of these, or wait: `athanor why` gives the reason")
    return pods[names[rank]]


def pod_names_by_rank(job: dict[str, Any]) -> list[str]:
    """Return the name of the pod that computes each rank.

    Ranks are numbered pod by pod: by torchrun's node rank, by mpirun's hostfile, and by TF_CONFIG, the chief first.

    Raises:
        RefusalError: the job is elastic.
    """
    name, tasks = job["metadata"]["name"], job["spec"]["tasks"]
    if any(task["name"] == _ELASTIC for task in tasks):
        limit = "the ranks of an elastic run move between its pods"
        raise RefusalError("--rank", name, limit, "choose one of the running pods with --pod")
    computing = [task for task in tasks if task["name"] not in _WITHOUT_RANKS]
    computing.sort(key=lambda task: task["name"] != "chief")
    return [
        pod_name(name, task["name"], index)
        for task in computing
        for index in range(task["replicas"])
        for _ in range(_ranks_of_pod(task))
    ]


def _ranks_of_pod(task: dict[str, Any]) -> int:
    """Return the number of ranks of each pod: where there may be several, each has a port for its metrics."""
    ports = task["template"]["spec"]["containers"][0].get("ports", [])
    return max(1, sum(port["name"].startswith(METRICS_PORT_NAME) for port in ports))


def _in_words(numbers: Sequence[int]) -> str:
    """Return ascending numbers in few words, such as 0-7, 16."""
    runs = (list(run) for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]))
    spans = [(run[0][1], run[-1][1]) for run in runs]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or "none"
