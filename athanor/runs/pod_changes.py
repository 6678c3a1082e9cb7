"""Waiting for a job's pods: until one of them changes, instead of until the next look at all of them."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster

_GATHER_SECONDS = 0.1
"""Pods that start together report within this time, and are one change."""
_MOST_BYTES = 1 << 16


class PodChanges:
    """Watches the pods of a job, through kubectl; a user who may not watch them waits for the time alone."""

    def __init__(self, cluster: Cluster, job_name: str) -> None:
        selector = f"--selector=volcano.sh/job-name={job_name}"
        self._watch = subprocess.Popen(
            [*cluster.prefix, "get", "pods", selector, "--watch", "--output=name"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._is_watching = True

    def wait(self, seconds: float) -> None:
        """Return at the next change, or after this time."""
        begin = time.monotonic()
        if self._is_watching and self._next(seconds):
            time.sleep(_GATHER_SECONDS)
            while self._is_watching and self._next(0):
                pass
            return
        time.sleep(max(0.0, begin + seconds - time.monotonic()))

    def close(self) -> None:
        """End the watch."""
        self._watch.kill()
        self._watch.communicate()

    def _next(self, seconds: float) -> bool:
        """Wait for a change; whether there was one. A watch that has ended, as after a server's restart, has none."""
        assert self._watch.stdout
        if not select.select([self._watch.stdout], [], [], seconds)[0]:
            return False
        self._is_watching = bool(os.read(self._watch.stdout.fileno(), _MOST_BYTES))
        return self._is_watching
