"""Logs of all ranks of a job, merged by time, with the pod in front of every line."""

from __future__ import annotations

import heapq
import mmap
import re
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from datetime import timedelta
from typing import IO, TYPE_CHECKING

from athanor.inspection.jobs import ENDED, find_job, job_phase, pods_of, short_name
from athanor.inspection.objects import JOB_NAME, Object, Snapshot, moment, name_of
from tools.errors import ExpectedError
from tools.operations.log_lines import readable
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tools.kubectl import Kubectl

POLL_SECONDS = 1.0
_CLOCKS_DIFFER = timedelta(seconds=30)
_DISPLACED_LINES = 100
"""A line is at most this many lines after its place in time."""
_LINE = re.compile(rb"\[pod/([^/\]]+)/([^\]]+)\] (\S+) ?(.*)", re.DOTALL)
Source = tuple[str, str]
"""Pod and container."""
Line = tuple[bytes, Source, bytes]
"""Time (RFC 3339 with nanoseconds, as the container runtime wrote it), source, text."""


class NoPodsYetError(ExpectedError):
    """The job has not got any pods so far."""


class NoPodsLeftError(ExpectedError):
    """The job has ended, and its pods were removed."""


def parse(line: bytes) -> Line | None:
    """Return a line of `kubectl logs --prefix --timestamps`; None for what kubectl says itself."""
    match = _LINE.match(line)
    if match is None:
        return None
    return match.group(3), (match.group(1).decode(), match.group(2).decode()), match.group(4).rstrip(b"\n")


def merged(text: bytes | mmap.mmap) -> Iterator[Line]:
    """Yield the lines of all sources by time, for people, from kubectl's output: one source after the other, in order.

    The sources' parts are read side by side where they lie, so that a log need not fit into memory.
    """
    parts = [_lines(text, start, end) for start, end in _parts(text)]
    return heapq.merge(*parts, key=lambda line: sortable(line[0]))


def _parts(text: bytes | mmap.mmap) -> list[tuple[int, int]]:
    starts: list[int] = []
    last: Source | None = None
    for start, _, line in _split(text, 0, len(text)):
        stamped = parse(line)
        if stamped and stamped[1] != last:
            starts.append(start)
            last = stamped[1]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _split(text: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    while start < end:
        newline = text.find(b"\n", start, end)
        stop = end if newline < 0 else newline + 1
        yield start, stop, text[start:stop]
        start = stop


def _lines(text: bytes | mmap.mmap, start: int, end: int) -> Iterator[Line]:
    """Yield the lines of a part by time.

    The runtime stamps a line before it writes it, and a container's two streams independently of each other: on a busy
    node a line of standard error occasionally comes after slightly later ones of standard output.
    """
    waiting: list[tuple[bytes, int, Line]] = []
    for number, (_, _, line) in enumerate(_split(text, start, end)):
        if stamped := parse(line):
            parsed = stamped[0], stamped[1], readable(stamped[2])
            heapq.heappush(waiting, (sortable(stamped[0]), number, parsed))
        if len(waiting) > _DISPLACED_LINES:
            yield heapq.heappop(waiting)[2]
    yield from (line for _, _, line in sorted(waiting))


def sortable(stamp: bytes) -> bytes:
    """Return a time that sorts as text, without its Z: `…05Z` and `…05.1Z` have fractions of different length."""
    whole, _, fraction = stamp.rstrip(b"Z").partition(b".")
    return whole + fraction.ljust(9, b"0")


class Unseen:
    """Lets every line through once, though the same seconds are asked for again."""

    def __init__(self) -> None:
        self._latest: dict[Source, list[tuple[bytes, bytes]]] = {}
        """The latest lines of each source, sorted."""

    def __call__(self, line: Line) -> bool:
        """Whether the line is new: even one that was written after slightly later ones."""
        latest, stamped = self._latest.setdefault(line[1], []), (sortable(line[0]), line[2])
        place = bisect_left(latest, stamped)
        is_full = len(latest) == _DISPLACED_LINES
        if latest[place : place + 1] == [stamped] or (is_full and place == 0):
            return False
        latest.insert(place, stamped)
        if is_full:
            del latest[0]
        return True


def prefixes(job: Object, pods: Iterable[Object]) -> dict[Source, str]:
    """Return the prefix of each source's lines: `worker-0`, and `worker-0/prepare` for further containers."""
    by_source: dict[Source, str] = {}
    for pod in pods:
        main = pod["spec"]["containers"][0]["name"]
        for container in (*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]):
            name = container["name"]
            by_source[name_of(pod), name] = short_name(pod, job) + ("" if name == main else f"/{name}")
    return by_source


def written(line: Line, before: Mapping[Source, str], *, timestamps: bool) -> bytes:
    """Return a line as it is shown: with its prefix, also before each line of its traceback."""
    stamp, source, text = line
    name = before.get(source, "/".join(source))
    start = f"[{name}] ".encode() + (stamp + b" " if timestamps else b"")
    return b"".join(start + each + b"\n" for each in text.split(b"\n"))


def show(kubectl: Kubectl, namespace: str, name: str, *, follow: bool = False, timestamps: bool = False) -> None:
    """Write the logs of all containers of a job's pods to standard output; with `follow` until the job has ended.

    Following asks again and again instead of keeping a connection per container: pods that come later, or come again
    after a restart, are shown, too, and five hundred pods cost no more than one kubectl at a time.

    Raises:
        RefusalError: there is no such job.
        NoPodsLeftError: the job's pods are gone.
        NoPodsYetError: the job has no pods yet.
        CommandError: the cluster could not be asked.
    """
    new = Unseen()
    # What the round before the last had seen: each container was asked after that, so older lines were shown. The
    # latest line of all would not do, for containers are asked one after the other.
    seen: list[bytes] = [b"", b""]
    while True:
        job, pods = _ask(kubectl, namespace, name)
        if not pods and not follow:
            raise _without_pods(job, name)
        before, latest = prefixes(job, pods), seen[-1]
        with tempfile.TemporaryFile() as file:
            _fetch(kubectl, namespace, name_of(job), _margin(seen[-2]), file)
            for line in _in(file):
                if new(line):
                    sys.stdout.buffer.write(written(line, before, timestamps=timestamps))
                    latest = max(latest, line[0], key=sortable)
        sys.stdout.buffer.flush()
        seen.append(latest)
        if not follow or job_phase(job) in ENDED:
            return
        time.sleep(POLL_SECONDS)


def _without_pods(job: Object, name: str) -> ExpectedError:
    fix = f"so there are no logs. Fix: `make why JOB={name}` shows its state"
    if job_phase(job) in ENDED:
        return NoPodsLeftError(f"job {name!r} has no pods any more: they were cleaned up, {fix}")
    return NoPodsYetError(f"job {name!r} has no pods yet, {fix}; PAST=1 prints those of its previous runs")


def _margin(stamp: bytes) -> str:
    """Return from when on to ask again: nodes' clocks differ a little."""
    return (moment(stamp.decode()) - _CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%SZ") if stamp else ""


def _ask(kubectl: Kubectl, namespace: str, name: str) -> tuple[Object, list[Object]]:
    jobs = kubectl.items("jobs.batch.volcano.sh", namespace)
    job = find_job(Snapshot(namespace=namespace, jobs=jobs), name)
    pods = kubectl.items("pods", namespace, f"{JOB_NAME}={name_of(job)}")
    return job, pods_of(Snapshot(namespace=namespace, jobs=jobs, pods=pods), job)


def _fetch(kubectl: Kubectl, namespace: str, job: str, since: str, file: IO[bytes]) -> None:
    """Write into the file what all pods printed, one container after the other."""
    words = ["logs", "-n", namespace, "-l", f"{JOB_NAME}={job}", "--all-containers", "--prefix", "--timestamps"]
    # A container that has not started has no log yet, but the others may have one.
    words += ["--tail=-1", "--ignore-errors", *([f"--since-time={since}"] if since else [])]
    command = [*kubectl.prefix, *words]
    done = subprocess.run(command, check=False, stdout=file, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise CommandError(command, done.returncode, done.stderr.decode(errors="replace"), None)


def _in(file: IO[bytes]) -> Iterator[Line]:
    if file.seek(0, 2) == 0:  # nothing can be mapped of an empty file
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        yield from merged(text)
