"""Runs other programs: output goes to a log, failures carry the end of the output."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from typing import IO, TYPE_CHECKING

from tools.errors import ExpectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TAIL_CHARACTERS = 2000
_PR_SET_PDEATHSIG = 1  # of prctl(2)


class CommandError(ExpectedError):
    """A program ended with a non-zero status."""

    def __init__(self, command: Sequence[str], status: int, output: str, log: Path | None) -> None:
        self.command = list(command)
        self.status = status
        self.output = output
        where = f"; whole log: {log}" if log else ""
        super().__init__(f"{' '.join(command[:6])} … ended with status {status}{where}\n{output[-TAIL_CHARACTERS:]}")


class ProgramTimeoutError(ExpectedError):
    """A program did not end in its time and was killed."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        super().__init__(f"{' '.join(command[:6])} … did not end within {seconds:g} s and was killed")


def run(  # noqa: PLR0913 - each is one property of a process
    command: Sequence[str | Path],
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | IO[bytes] | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Run a program to its end and return its standard output (no shell; `env` is added to this process's).

    `stdin` is what it reads: text, or an open file.

    Raises:
        CommandError: it ended with a non-zero status; the message holds the end of what it printed.
        ProgramTimeoutError: it was killed after `timeout_seconds`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",  # logs of pods may hold any bytes
            env={**os.environ, **(env or {})},
            cwd=cwd,
            input=stdin if isinstance(stdin, str) else None,
            stdin=None if isinstance(stdin, str) else stdin or subprocess.DEVNULL,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired as expired:
        raise ProgramTimeoutError(words, expired.timeout) from None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}[status {done.returncode}]\n")
    if done.returncode != 0:
        raise CommandError(words, done.returncode, (done.stdout + done.stderr).strip(), log)
    return done.stdout


def end_with(parent: int) -> None:
    """Let this process, which leads a session, and its children be killed when its parent ends.

    Args:
        parent: number of the process that started this one.

    Raises:
        SystemExit: it has ended already.
    """
    signal.signal(signal.SIGTERM, lambda _, __: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)
