"""The lines of pods on this terminal: each with its pod, and without anything that a terminal would obey."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.runs.job import main_container
from athanor.runs.last_seconds import LastSeconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

_ONE_AT_A_TIME = threading.Lock()
_WITH_TIME = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)) (?P<text>.*)", re.DOTALL)
"""A line with --timestamps (Kubernetes, PodLogOptions.timestamps: RFC 3339)."""


def json_line(pod: str, time: str | None, text: str) -> str:
    """Return a line of a pod for programs, which JSON keeps as it was printed."""
    return json.dumps({"pod": pod, "time": time, "line": text})


class PodLines:
    """Prints what one pod writes, in threads of its own; `closed` once nobody reads this process's output."""

    def __init__(  # noqa: PLR0913 - which pod, which of its lines, and how they are printed
        self,
        cluster: Cluster,
        job_name: str,
        pod: dict[str, Any],
        *,
        follow: bool,
        as_json: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        """Start to read the pod's log, from its beginning unless options say otherwise.

        Args:
            cluster: The cluster, in the job's namespace.
            job_name: The job's name, with which the names of its pods begin.
            pod: The pod, as the API server describes it.
            follow: Whether to read on until the pod ends.
            as_json: Whether each line is printed as a JSON object, with its time.
            options: Further options of the first `kubectl logs`, such as --tail=9.
        """
        name = pod["metadata"]["name"]
        always = ["--timestamps", *(["--follow"] if follow else [])]
        self._words = [*cluster.prefix, "logs", f"--container={main_container(pod)}", name, *always]
        self._pod, self._as_json = name, as_json
        self._start = f"[{name.removeprefix(f'{job_name}-')}] "
        self._read, self._said, self._cut_line = LastSeconds(), set[str](), b""
        self.closed = False
        self.code: int | None = None
        """The exit status of kubectl; None while it reads. Other than 0, there may be more where it ended."""
        self.heard = monotonic()
        """When the last new line came, or else when this began: time.monotonic()."""
        self._begin(options)

    def _begin(self, options: Sequence[str]) -> None:
        self.code = None
        self._kubectl = subprocess.Popen(
            [*self._words, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        work = (self._copy, self._copy_complaints)
        self._threads = [threading.Thread(target=each, args=[self._kubectl], daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def read_on(self) -> None:
        """Read again where an ended kubectl left off."""
        self._end()
        self._cut_line = b""  # comes again, whole
        self._read.begin_again()
        self._begin([f"--since-time={self._read.since}"] if self._read.since else [])

    def _copy(self, kubectl: subprocess.Popen[bytes]) -> None:
        assert kubectl.stdout is not None
        try:
            for line in kubectl.stdout:
                if line.endswith(b"\n"):
                    self._print(line[:-1])
                else:
                    self._cut_line = line
            code = kubectl.wait()
            if code == 0:
                self.print_cut_line()
            self.code = code
        except BrokenPipeError:
            self.closed = True

    def print_cut_line(self) -> None:
        """Print the beginning of a line whose rest does not come any more."""
        line, self._cut_line = self._cut_line, b""
        if line:
            self._print(line)

    def _print(self, line: bytes) -> None:
        whole = line.decode(errors="backslashreplace")
        with_time = _WITH_TIME.fullmatch(whole)
        time, text = (with_time["time"], with_time["text"]) if with_time else (None, whole)
        if not self._read.is_new(time, whole):
            return
        self.heard = monotonic()
        output = json_line(self._pod, time, text) if self._as_json else f"{self._start}{printable(text)}"
        with _ONE_AT_A_TIME:
            sys.stdout.write(f"{output}\n")
            sys.stdout.flush()

    def _copy_complaints(self, kubectl: subprocess.Popen[bytes]) -> None:
        """Print what kubectl says itself, once: a node that is away makes it say the same each time."""
        assert kubectl.stderr is not None
        for line in kubectl.stderr:
            text = printable(line.decode(errors="backslashreplace").rstrip("\n"))
            if text not in self._said:
                self._said.add(text)
                with _ONE_AT_A_TIME:
                    sys.stderr.write(f"{self._start}{text}\n")

    def wait(self, seconds: float | None = None) -> None:
        """Return when all lines are printed, or after so many seconds."""
        self._threads[0].join(seconds)

    def stop(self) -> None:
        """End reading."""
        self._kubectl.terminate()
        self._end()

    def _end(self) -> None:
        self._kubectl.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._kubectl.stdout, self._kubectl.stderr):
            assert stream is not None
            stream.close()
