"""Log lines of pods for a terminal: prefixed with the pod's name, without control characters.

A log is read from a start time, which an API server takes in whole seconds (Kubernetes, metav1.Time). Lines of those
seconds that were read before are recognised by their text and time: the two streams of a container are not strictly in
the order of their times, and after a rotation of the file, a log begins later than requested.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.job import Log

_SECOND = len("2026-01-01T10:00:00")
_OFFSET = len("+08:00")


class LastSeconds:
    """The lines of the last second that has any, and of the one before."""

    def __init__(self) -> None:
        """Begin with a log of which nothing was read."""
        self._lines: dict[str, Counter[str]] = {}
        self._repeated: Counter[str] = Counter()

    @property
    def since(self) -> str | None:
        """From when on the log is to be read again, RFC 3339 in whole seconds; None: from its beginning."""
        return min(self._lines, key=datetime.fromisoformat, default=None)

    def begin_again(self) -> None:
        """Note that the lines from `since` on come once more."""
        self._repeated = Counter()
        for lines in self._lines.values():
            self._repeated.update(lines)

    def is_new(self, time: str, line: str) -> bool:
        """Return whether a line was not read before, and take it as read.

        Args:
            time: When it was printed, RFC 3339.
            line: All of it, with its time.
        """
        if self._repeated[line] > 0:
            self._repeated[line] -= 1
            return False
        self._note(line, time[:_SECOND] + ("Z" if time.endswith("Z") else time[-_OFFSET:]))
        return True

    def _note(self, line: str, second: str) -> None:
        if second not in self._lines:
            self._lines[second] = Counter()
            if len(self._lines) > 2:
                del self._lines[min(self._lines, key=datetime.fromisoformat)]
        if second in self._lines:
            self._lines[second][line] += 1


_ONE_AT_A_TIME = threading.Lock()
_WITH_TIME = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)) (?P<text>.*)", re.DOTALL)
"""A line with --timestamps (Kubernetes, PodLogOptions.timestamps: RFC 3339). One without a time is the kubelet's, which
says in the log itself why it has no more (pkg/kubelet/kubelet_pods.go, kuberuntime_container.go)."""


def json_line(log: Log, time: str, text: str) -> str:
    """Return a line for programs, which JSON keeps as it was printed."""
    return json.dumps({"pod": log.pod, "container": log.container, "time": time, "line": text})


_GONE = re.compile(r"\(NotFound\)|not found|unable to retrieve container logs")
"""Errors for a pod that was deleted, and for a container whose log its node has removed (kubelet,
kuberuntime_container.go)."""


def _trouble(said: str) -> str:
    """Return the meaning of an error of kubectl, which is not one of the pod's own lines."""
    if _GONE.search(said):
        return f"was deleted with the pod; its earlier output is in the log store, if there is one ({said})"
    return f"cannot be read now ({said})"


def texts_of(log: str) -> list[str]:
    """Return the text of a container's lines, from a log with --timestamps."""
    return [match["text"] for line in log.split("\n") if (match := _WITH_TIME.fullmatch(line))]


class PodLines:
    """Prints what one container writes, in threads of its own; `closed` once nobody reads this process's output."""

    def __init__(
        self, cluster: Cluster, log: Log, *, follow: bool, as_json: bool = False, options: Sequence[str] = ()
    ) -> None:
        """Start to read the container's log, from its beginning unless options say otherwise.

        Args:
            cluster: The cluster, in the job's namespace.
            log: Which log.
            follow: Whether to read on until the container ends.
            as_json: Whether each line is printed as a JSON object, with its time.
            options: Further options of the first `kubectl logs`, such as --tail=9.
        """
        always = ["--timestamps", *(["--follow"] if follow else [])]
        self._words = [*cluster.prefix, "logs", f"--container={log.container}", log.pod, *always]
        self.log, self._as_json = log, as_json
        self._read, self._said, self._cut_line = LastSeconds(), set[str](), b""
        self.closed = False
        self.latest: str | None = None
        """When the line was printed that was read last (RFC 3339)."""
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
        if with_time is None:
            self._complain(whole)
            return
        time, text = with_time["time"], with_time["text"]
        if not self._read.is_new(time, whole):
            return
        self.heard, self.latest = monotonic(), time
        output = f"[{self.log.label}] {printable(text)}"
        if self._as_json:
            output = json_line(self.log, time, text)
        with _ONE_AT_A_TIME:
            sys.stdout.write(f"{output}\n")
            sys.stdout.flush()

    def _copy_complaints(self, kubectl: subprocess.Popen[bytes]) -> None:
        assert kubectl.stderr is not None
        for line in kubectl.stderr:
            self._complain(line.decode(errors="backslashreplace").rstrip("\n"))

    def _complain(self, said: str) -> None:
        """Say that the log cannot be read, each cause once: a node that is away makes kubectl say the same again."""
        text = printable(said)
        if text not in self._said:
            self._said.add(text)
            with _ONE_AT_A_TIME:
                sys.stderr.write(f"athanor: the log of {self.log.label} {_trouble(text)}\n")

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
