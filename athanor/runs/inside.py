"""Access to a run's pods: a shell, and forwarded ports, both through kubectl."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from athanor.runs.job import main_container

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


def shell(cluster: Cluster, pod: dict[str, Any], command: Sequence[str]) -> int:
    """Run a command in a pod, by default a shell; return its exit status."""
    terminal = ["--stdin", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--stdin"]
    words = [*cluster.prefix, "exec", *terminal, f"--container={main_container(pod)}", pod["metadata"]["name"]]
    return subprocess.run([*words, "--", *(command or _SHELL)], check=False).returncode


def forward(cluster: Cluster, pod: dict[str, Any], ports: Sequence[str]) -> int:
    """Open ports of a pod on this machine's loopback address until Ctrl-C; return kubectl's exit status.

    Args:
        cluster: The cluster, in the job's namespace.
        pod: A running one.
        ports: Such as 6006, or 8080:6006 for another port here.
    """
    words = [*cluster.prefix, "port-forward", "--address=127.0.0.1", f"pod/{pod['metadata']['name']}", *ports]
    try:
        return subprocess.run(words, check=False).returncode
    except KeyboardInterrupt:
        return 0
