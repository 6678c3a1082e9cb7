"""Into a run's pods: a shell, and a port of theirs on this machine. Both are kubectl's, with the pod chosen."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from athanor.runs.job import main_container, running_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


def shell(cluster: Cluster, job_name: str, pod: int, command: Sequence[str]) -> int:
    """Run a command in a pod, by default a shell; return its exit status.

    Raises:
        RefusalError: there is no such running pod.
    """
    chosen = running_pod(cluster, job_name, pod)
    terminal = ["--stdin", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--stdin"]
    words = [*cluster.prefix, "exec", *terminal, f"--container={main_container(chosen)}", chosen["metadata"]["name"]]
    return subprocess.run([*words, "--", *(command or _SHELL)], check=False).returncode


def forward(cluster: Cluster, job_name: str, pod: int, ports: Sequence[str]) -> int:
    """Open ports of a pod on this machine's loopback address until Ctrl-C; return kubectl's exit status.

    Args:
        cluster: The cluster, in the job's namespace.
        job_name: The job's name.
        pod: Number of the running pod.
        ports: Such as 6006, or 8080:6006 for another port here.

    Raises:
        RefusalError: there is no such running pod.
    """
    chosen = running_pod(cluster, job_name, pod)
    words = [*cluster.prefix, "port-forward", "--address=127.0.0.1", f"pod/{chosen['metadata']['name']}", *ports]
    try:
        return subprocess.run(words, check=False).returncode
    except KeyboardInterrupt:
        return 0
