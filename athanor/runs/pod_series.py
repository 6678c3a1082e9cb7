"""The metrics that a job has printed, from the log of the pod that reports its progress."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from athanor.runs.job import main_container, print_order, readable, readable_pods
from athanor.runs.series import Series, read_series
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from athanor.runs.cluster import Cluster

_LAST_LINES = 5000
_WITHOUT_A_LOG = ("(NotFound)", "is waiting to start")
"""Kubectl's messages about a pod that was deleted since it was listed, and of a container that does not run yet."""
_SECONDS = 60
"""Seconds for reading a log. The API server forwards the request to the pod's node, which may hang."""


def series_of(cluster: Cluster, job_name: str, known: Iterable[dict[str, Any]] | None = None) -> Series:
    """Return the metrics that a job has printed; nothing if it has no logs (any more).

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        known: Its pods, if they have just been asked for.

    Raises:
        RefusalError: the cluster does not answer, or the node of its pod does not, or the log may not be read.
    """
    started = readable_pods(cluster, job_name) if known is None else readable(known)
    pods = {pod["metadata"]["name"]: pod for pod in started}
    if not pods:
        return read_series("")
    name = min(pods, key=partial(print_order, job_name))
    words = ["logs", "--timestamps", f"--tail={_LAST_LINES}", f"--container={main_container(pods[name])}", name]
    try:
        done = subprocess.run(
            [*cluster.prefix, *words],
            capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        node = pods[name]["spec"].get("nodeName") or "its node"
        limit = f"has a log that {node} did not send in {_SECONDS} s"
        raise RefusalError("pod", name, limit, "try again; if this persists, the node's kubelet hangs") from None
    if done.returncode and not any(words in done.stderr for words in _WITHOUT_A_LOG):
        # a part of a log, or none, would pass for all that the job has printed
        said = (done.stderr.strip().splitlines() or [f"kubectl ended with {done.returncode}"])[-1]
        raise RefusalError("pod", name, f"has a log that cannot be read: {said}", "check your rights, or try again")
    return read_series(done.stdout)


def series_if_any(cluster: Cluster, job_name: str, known: Iterable[dict[str, Any]] | None = None) -> Series:
    """Return the same as `series_of`, and nothing where nobody answers: for what has more to say than a job's steps."""
    try:
        return series_of(cluster, job_name, known)
    except RefusalError:
        return read_series("")
