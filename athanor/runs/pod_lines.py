"""The lines of pods on this terminal: each with its pod, and without anything that a terminal would obey."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.runs.job import main_container

if TYPE_CHECKING:
    from athanor.runs.cluster import Cluster

_ONE_AT_A_TIME = threading.Lock()
_WITH_TIME = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\S+) (?P<text>.*)", re.DOTALL)
"""A line with --timestamps (Kubernetes, PodLogOptions.timestamps: RFC 3339)."""


def json_line(pod: str, time: str | None, text: str) -> str:
    """Return a line of a pod for programs, which JSON keeps as it was printed."""
    return json.dumps({"pod": pod, "time": time, "line": text})


class PodLines:
    """Prints what one pod writes, in a thread of its own; `closed` once nobody reads this process's output."""

    def __init__(
        self, cluster: Cluster, job_name: str, pod: dict[str, Any], *, follow: bool, as_json: bool = False
    ) -> None:
        """Start to read the pod's log, from its beginning.

        Args:
            cluster: The cluster, in the job's namespace.
            job_name: The job's name, with which the names of its pods begin.
            pod: The pod, as the API server describes it.
            follow: Whether to read on until the pod ends.
            as_json: Whether each line is printed as a JSON object, with its time.
        """
        name = pod["metadata"]["name"]
        options = [*(["--follow"] if follow else []), *(["--timestamps"] if as_json else [])]
        words = [*cluster.prefix, "logs", f"--container={main_container(pod)}", name, *options]
        self._pod, self._as_json = name, as_json
        self._start = f"[{name.removeprefix(f'{job_name}-')}] "
        self.closed = False
        self._kubectl = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        assert self._kubectl.stdout is not None
        try:
            for line in self._kubectl.stdout:
                text = self._output_line(line.decode(errors="backslashreplace").rstrip("\n"))
                with _ONE_AT_A_TIME:
                    sys.stdout.write(f"{text}\n")
                    sys.stdout.flush()
        except BrokenPipeError:
            self.closed = True

    def _output_line(self, line: str) -> str:
        if not self._as_json:
            return f"{self._start}{printable(line)}"
        with_time = _WITH_TIME.fullmatch(line)
        if with_time is None:
            return json_line(self._pod, None, line)
        return json_line(self._pod, with_time["time"], with_time["text"])

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
