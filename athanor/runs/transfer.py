"""File transfer through `kubectl exec`, in both directions; the counterpart of tar_stream.py.

kubectl may lose the beginning of what it is given while the other side starts, or hang. So nothing is written before
the other side has greeted, a start without a greeting is tried again, and a stalled stream is ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from athanor.inspection.control_characters import printable
from athanor.runs import tar_stream
from athanor.runs.tar_stream import GREETING, REFUSAL, StreamError
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_STARTS = 3
_GREETING_SECONDS = 20
_STILL_SECONDS = 60
"""Seconds without a byte after which the transfer is given up."""
_LOOK_SECONDS = 0.5
_NOT_RUN = {126, 127}
"""Statuses of a command that cannot be executed, or is not found (POSIX, 2.8.2)."""
_PROGRAM = Path(tar_stream.__file__).read_text(encoding="utf-8")


class NoGreetingError(Exception):
    """The container cannot run the program: the last line that kubectl said."""


class _LostError(Exception):
    """The connection was not made, or was lost: the last line that kubectl said."""


def download(prefix: Sequence[str], path: str, target: Path, *, replace: bool) -> dict[str, Any]:
    """Copy a file or a folder out of a container.

    Args:
        prefix: Words of `kubectl exec` up to the command.
        path: What is copied.
        target: Where to, as `tar_stream.receive` takes it.
        replace: Whether it may exist.

    Returns:
        `path` that was written, and `bytes` and `sha256` of what was sent.

    Raises:
        NoGreetingError: the container cannot run Python.
        RefusalError: it does not exist, the target does, or the connection was lost.
    """
    with _agent(prefix, "send", path) as agent:
        try:
            return tar_stream.receive(target, Path(path).name, agent.reads, agent.moved, replace=replace)
        except StreamError as error:
            raise agent.failure(path, str(error)) from None


def download_some(prefix: Sequence[str], folder: str, pattern: str, since: float, target: Path) -> None:
    """Copy the files of a folder in a container that have a name and were written since a time.

    Args:
        prefix: Words of `kubectl exec` up to the command.
        folder: Which need not exist.
        pattern: Such as *.json; at any depth.
        since: In seconds since 1970.
        target: A new folder, which has them as they lie in theirs.

    Raises:
        NoGreetingError: the container cannot run Python.
        RefusalError: the connection was lost.
    """
    with _agent(prefix, "send-some", folder, pattern, repr(since)) as agent:
        try:
            tar_stream.receive(target, target.name, agent.reads, agent.moved, replace=False)
        except StreamError as error:
            raise agent.failure(folder, str(error)) from None


def upload(prefix: Sequence[str], source: Path, path: str, *, replace: bool) -> dict[str, Any]:
    """Copy a file or a folder into a container.

    Args:
        prefix: Words of `kubectl exec` up to the command.
        source: What is copied.
        path: Where to, as `tar_stream.receive` takes it.
        replace: Whether it may exist.

    Returns:
        As the other side confirms it: `path` that was written, and `bytes` and `sha256` of what came.

    Raises:
        NoGreetingError: the container cannot run Python.
        RefusalError: the target exists, it cannot be written, or the connection was lost.
    """
    with _agent(prefix, "receive", path, source.resolve().name, str(int(replace))) as agent:
        try:
            sent = tar_stream.send(source, agent.writes, agent.moved)
        except BrokenPipeError:
            raise agent.failure(path, "the other side ended early") from None
        except StreamError as error:
            raise RefusalError("source", str(source), str(error), "name a file or a folder of this machine") from None
        answer = agent.reads.readline()
        try:
            confirmed = cast("dict[str, Any]", json.loads(answer))
        except ValueError:
            raise agent.failure(path, "the other side ended early") from None
        if confirmed["sha256"] != sent["sha256"]:
            raise agent.failure(path, "the received data differs from the sent data")
        return confirmed


@dataclass
class _Agent:
    """The program at the other side, and whether anything moves."""

    process: subprocess.Popen[bytes]
    said: list[str] = field(default_factory=list[str])
    bytes: int = 0
    stands_still: bool = False
    _listening: threading.Thread | None = None

    @property
    def reads(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    @property
    def writes(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    def moved(self, count: int) -> None:
        self.bytes += count

    def listen(self) -> None:
        """Read what it says all the time: a full pipe would stop it."""
        stream = self.process.stderr
        assert stream

        def read() -> None:
            with stream:
                self.said.extend(printable(line.decode(errors="replace").rstrip("\n")) for line in stream)

        self._listening = threading.Thread(target=read, daemon=True)
        self._listening.start()

    def last_words(self) -> str:
        """Return the last line that it said, when it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GREETING_SECONDS)
        if self._listening:
            self._listening.join(_GREETING_SECONDS)
        return self.refusal() or (self.said or [""])[-1]

    def refusal(self) -> str:
        """Return why the program there ended; empty if it has not said so."""
        own = [line.removeprefix(REFUSAL) for line in self.said if line.startswith(REFUSAL)]
        return own[-1] if own else ""

    def failure(self, path: str, otherwise: str) -> RefusalError:
        """Return why nothing was copied, in the other side's own words where it has any."""
        if self.stands_still and not self.refusal():
            limit = f"no data was transferred for {_STILL_SECONDS} s, and nothing was copied"
            return RefusalError("copy", path, limit, "try again; `kubectl exec` may have lost its connection")
        words = (self.last_words() or otherwise).removeprefix(f"{path} ")
        return RefusalError("copy", path, words, "look with `athanor shell`, or replace what exists with --replace")


@contextmanager
def _agent(prefix: Sequence[str], *arguments: str) -> Generator[_Agent]:
    """Yield the program at the other side when it has greeted; it has ended afterwards.

    Raises:
        NoGreetingError: it did not greet, however often it was started.
    """
    words = [*prefix, "python3", "-c", _PROGRAM, *arguments]
    agent = _greeted(words)
    watching = threading.Event()
    watch = threading.Thread(target=_watch, args=(agent, watching), daemon=True)
    watch.start()
    try:
        yield agent
    finally:
        watching.set()
        watch.join()
        _end(agent.process)


def _greeted(words: Sequence[str]) -> _Agent:
    for _ in range(_STARTS - 1):
        with suppress(_LostError):
            return _started(words)
    try:
        return _started(words)
    except _LostError as error:
        raise RefusalError("copy", "kubectl exec", str(error), "check the connection, and try again") from None


def _started(words: Sequence[str]) -> _Agent:
    """Start the program once.

    Raises:
        NoGreetingError: the container cannot run it.
        _LostError: it did not greet, for another reason.
    """
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    agent = _Agent(process)
    agent.listen()
    late = threading.Timer(_GREETING_SECONDS, process.kill)
    late.start()
    try:
        if agent.reads.read(len(GREETING)) == GREETING:
            return agent
    finally:
        late.cancel()
    words_of_end = agent.last_words()
    _end(process)
    if process.returncode in _NOT_RUN or "executable file not found" in words_of_end:
        raise NoGreetingError(words_of_end)
    raise _LostError(words_of_end or f"did not answer in {_GREETING_SECONDS} s")


def _watch(agent: _Agent, done: threading.Event) -> None:
    """End a stream that stalls, or whose other side has refused, and show in a terminal how much was copied.

    A program that ended while more was on its way to it keeps kubectl from ending.
    """
    seen, since, is_terminal = -1, time.monotonic(), sys.stderr.isatty()
    while not done.wait(_LOOK_SECONDS):
        if agent.refusal():
            agent.process.kill()
            return
        if agent.bytes != seen:
            seen, since = agent.bytes, time.monotonic()
        elif time.monotonic() - since > _STILL_SECONDS:
            agent.stands_still = True
            agent.process.kill()
            return
        if is_terminal:
            sys.stderr.write(f"\r{agent.bytes / 2**20:,.1f} MiB ")
            sys.stderr.flush()
    if is_terminal:
        sys.stderr.write("\r\x1b[K")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End kubectl. Closing its input is enough for one whose other side has ended."""
    for stream in (process.stdin, process.stdout):
        if stream:
            with suppress(OSError):
                stream.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
