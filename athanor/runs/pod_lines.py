"""The lines of pods on this terminal: each with its pod, and without anything that a terminal would obey."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.runs.job import main_container

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster

_ONE_AT_A_TIME = threading.Lock()


class PodLines:
    """Prints what one pod writes, in a thread of its own; `closed` once nobody reads this process's output."""

    def __init__(self, cluster: Cluster, job_name: str, pod: dict[str, Any], *, follow: bool) -> None:
        """Start to read the pod's log, from its beginning.

        Args:
            cluster: The cluster, in the job's namespace.
            job_name: The job's name, with which the names of its pods begin.
            pod: The pod, as the API server describes it.
            follow: Whether to read on until the pod ends.
        """
        name = pod["metadata"]["name"]
        words = [*cluster.prefix, "logs", f"--container={main_container(pod)}", name, *(["--follow"] if follow else [])]
        self._start = f"[{name.removeprefix(f'{job_name}-')}] "
        self.closed = False
        self._kubectl = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        assert self._kubectl.stdout is not None
        try:
            for line in self._kubectl.stdout:
                text = printable(line.decode(errors="backslashreplace").rstrip("\n"))
                with _ONE_AT_A_TIME:
                    sys.stdout.write(f"{self._start}{text}\n")
                    sys.stdout.flush()
        except BrokenPipeError:
            self.closed = True

    def wait(self, seconds: float | None = None) -> None:
        """Return when all lines are printed, or after so many seconds."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """End reading."""
        self._kubectl.terminate()
        self._kubectl.wait()
        self._thread.join()
        assert self._kubectl.stdout is not None
        self._kubectl.stdout.close()
