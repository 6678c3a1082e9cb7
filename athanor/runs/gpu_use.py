"""GPU utilisation of a run's pod by its nvidia-smi, for users without access to Prometheus."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from athanor.runs.job import exec_words, has_started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

# nvidia-smi(1), "SELECTIVE QUERY OPTIONS". The device plugin's containers have the program from the driver.
_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_SECONDS = 5


def gpu_use(cluster: Cluster, pods: Sequence[dict[str, Any]]) -> list[int]:
    """Return the use of each GPU of the first running pod in percent; none where nobody says.

    Args:
        cluster: The cluster, in the pods' namespace.
        pods: Of one job, in the order of their numbers.
    """
    pod = next((pod for pod in pods if "status" in pod and has_started(pod)), None)
    if pod is None:
        return []
    try:
        done = subprocess.run(
            [*exec_words(cluster, pod), *_QUERY], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return []
    lines = done.stdout.split()
    return [int(line) for line in lines] if done.returncode == 0 and all(map(_is_percent, lines)) else []


def _is_percent(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:4]) <= 100
