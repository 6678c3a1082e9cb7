"""A run's Volcano Job and its pods, as they are in the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from athanor.inspection.containers import statuses
from athanor.inspection.jobs import job_phase
from athanor.inspection.objects import JOB_NAME, JOBS
from infra.errors import RefusalError
from infra.job_pods import PREPARE, REQUIREMENTS
from infra.job_source import CONTAINER as SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from athanor.runs.cluster import Cluster

COMPLETED = "Completed"
ABORTED = "Aborted"
"""A job that was stopped and can be resumed."""
FAILED = "Failed"
ENDED = {COMPLETED, FAILED}
"""Phases that a job never leaves (Volcano, pkg/controllers/job/state)."""
GOING_ON = {"Pending", "Running", "Restarting"}
"""Phases of a job that has pods or will have them; in those that are in neither set, its pods are being ended."""
_PRINT_FOR_ALL = {"launcher", "chief"}
"""Roles whose pod prints what the workers do: mpirun's output is the ranks', and a chief hands out the steps."""
HELPERS = {"ps", "evaluator", "rendezvous", SOURCE}
"""Roles whose pods compute no steps, whatever the kind of the job."""


def job_of(cluster: Cluster, job_name: str) -> dict[str, Any]:
    """Return the job of a run.

    Raises:
        RefusalError: it does not exist (any more).
    """
    job = cluster.find(JOBS, job_name)
    if job is None:
        raise without_job(cluster, job_name)
    return job


def without_job(cluster: Cluster, job_name: str) -> RefusalError:
    """Return the refusal of a run whose job does not exist (any more)."""
    fix = "`athanor rerun` with the run's name starts it again"
    return RefusalError("run", job_name, f"has no job in namespace {cluster.namespace}", fix)


def phase_of(job: dict[str, Any]) -> str:
    """Return a job's phase; Pending until Volcano has seen it."""
    phase = job_phase(job)
    return "Pending" if phase == "accepted" else phase


def has_ended(job: dict[str, Any]) -> bool:
    """Return whether a job's pods have ended, for good or until it is resumed."""
    return phase_of(job) in {*ENDED, ABORTED}


def message_of(job: dict[str, Any]) -> str:
    """Return Volcano's message about the phase; empty if there is none."""
    return job.get("status", {}).get("state", {}).get("message", "")


def pods_selector(job_name: str) -> str:
    """Return the labels of a job's pods."""
    return f"{JOB_NAME}={job_name}"


def readable_pods(cluster: Cluster, job_name: str) -> list[dict[str, Any]]:
    """Return the pods of a job that have started, by their number."""
    return readable(cluster.items("pods", pods_selector(job_name)))


def readable(pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of a job's pods that have started, by their number."""
    return sorted(filter(_has_log, pods), key=number_of)


def number_of(pod: dict[str, Any]) -> tuple[int, str]:
    """Return a sort key that orders pods of one role by the numbers at the end of their names."""
    name = pod["metadata"]["name"]
    return len(name), name


def _has_log(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") == "Running" or pod_has_ended(pod)


def pod_has_ended(pod: dict[str, Any]) -> bool:
    """Return whether a pod writes nothing more: its containers are never started again."""
    status = pod.get("status", {})
    if status.get("phase") in {"Succeeded", "Failed"}:
        return True
    # Of a program that ends at once, the kubelet reports the end a second before the pod's phase.
    name, states = main_container(pod), status.get("containerStatuses", [])
    return any(state["name"] == name and "terminated" in state["state"] for state in states)


@dataclass(frozen=True, kw_only=True)
class Log:
    """The log of one container of a job's pods."""

    job_name: str
    pod: str
    """The pod's name."""
    container: str
    is_program: bool
    """Whether it is the program's, and not that of what prepares the pod."""

    @property
    def label(self) -> str:
        """Prefix of its lines: its pod, and where it is not the program's the container, too."""
        pod = self.pod.removeprefix(f"{self.job_name}-")
        return pod if self.is_program else f"{pod} {self.container}"


def logs_of(job_name: str, pod: dict[str, Any]) -> list[Log]:
    """Return the logs of a pod for its user: those that prepare the pod, then the program's.

    A container of ours is among them if it failed, because it says why the program never started.
    """
    status, main = pod.get("status", {}), main_container(pod)
    before = [each["name"] for each in status.get("initContainerStatuses", []) if _prints_for_the_user(each)]
    waits = any(each["name"] == main and "waiting" in each["state"] for each in status.get("containerStatuses", []))
    names = [*before, *([main] if _has_log(pod) and not waits else [])]
    pod_name = pod["metadata"]["name"]
    return [Log(job_name=job_name, pod=pod_name, container=name, is_program=name == main) for name in names]


def _prints_for_the_user(init: dict[str, Any]) -> bool:
    ended: dict[str, Any] = init["state"].get("terminated") or {}
    is_theirs = init["name"] in {PREPARE, REQUIREMENTS}
    return "waiting" not in init["state"] and (is_theirs or bool(ended.get("exitCode")))


def has_ended_printing(pod: dict[str, Any], container: str) -> bool:
    """Return whether a container of a pod writes nothing more."""
    states = [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
    return pod_has_ended(pod) or any(each["name"] == container and "terminated" in each["state"] for each in states)


def hindrance(pods: Iterable[dict[str, Any]]) -> str:
    """Return the obstacle to the start of the first of some pods, such as a missing image; empty if none."""
    for each in statuses(sorted(pods, key=number_of)):
        if each.hindrance:
            return f"({each.pod['metadata']['name']}: {each.hindrance}, `athanor why` says more)"
    return ""


def print_order(job_name: str, pod_name: str) -> tuple[int, int, str]:
    """Return a sort key for the names of a job's pods, the one that prints its progress first.

    By the name, of which Volcano makes the role a part: of pods that are gone, the log store has nothing else.
    """
    role = role_of(job_name, pod_name)
    place = 0 if role in _PRINT_FOR_ALL else 2 if role in HELPERS else 1
    return place, len(pod_name), pod_name


def role_of(job_name: str, pod_name: str) -> str:
    """Return the role of a pod, such as worker."""
    return pod_name.removeprefix(f"{job_name}-").rpartition("-")[0]


def main_container(pod: dict[str, Any]) -> str:
    """Return the name of the container that runs the program."""
    return pod["spec"]["containers"][0]["name"]


def has_started(pod: dict[str, Any]) -> bool:
    """Return whether the main container has started: exec into one that starts may never answer."""
    name, states = main_container(pod), pod["status"].get("containerStatuses", [])
    return any(state["name"] == name and state.get("started") and "running" in state["state"] for state in states)


def started_pod(cluster: Cluster, job_name: str) -> dict[str, Any] | None:
    """Return the first pod of a job whose main container has started; None if there is none."""
    return next((pod for pod in readable_pods(cluster, job_name) if has_started(pod)), None)


def exec_words(cluster: Cluster, pod: dict[str, Any], *options: str) -> list[str]:
    """Return the words that run what comes after them in a pod, with its input."""
    words = ["exec", "--stdin", *options, f"--container={main_container(pod)}", pod["metadata"]["name"], "--"]
    return [*cluster.prefix, *words]


def running_pods(cluster: Cluster, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the running pods of a job, by their number.

    Raises:
        RefusalError: there are none.
    """
    job_name = job["metadata"]["name"]
    pods = [pod for pod in readable_pods(cluster, job_name) if pod["status"]["phase"] == "Running"]
    if not pods:
        fix = "`athanor logs` has what they wrote" if phase_of(job) in ENDED else "wait until it runs"
        raise RefusalError("job", job_name, f"is {phase_of(job)} and has no running pod", fix)
    return pods


def running_pod(cluster: Cluster, job_name: str, number: int) -> dict[str, Any]:
    """Return a running pod of a job.

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        number: Which of its running pods, by their names; 0 is the first worker of most jobs.

    Raises:
        RefusalError: the job does not exist, or has fewer running pods.
    """
    pods = running_pods(cluster, job_of(cluster, job_name))
    if number >= len(pods):
        limit = f"has {len(pods)} running {'pod' if len(pods) == 1 else 'pods'}, the first is 0"
        raise RefusalError("--pod", number, limit, f"use 0 to {len(pods) - 1}")
    return pods[number]
