"""A file per rank that says when it last made progress, and how long it may take until it does again.

A process that hangs in a collective, in its data or in storage is alive to the kernel, but its file no longer changes.
The file carries the limit of what the rank is doing, so that a reader has none of its own: a first step that is
compiled and a checkpoint on a slow volume may take half an hour where a step may take two minutes.

Run as a program, it is the liveness probe of a pod: status 1 when a rank is stuck, else 0.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

FOLDER = Path(tempfile.gettempdir()) / "athanor"
"""Where the ranks of a pod write by default, and where the probe looks."""
INTERVAL_SECONDS = 1.0
PATTERN = "heartbeat-rank-*"


@dataclass(frozen=True)
class Beat:
    """What one file says."""

    rank: int
    pid: int
    process_start: int
    """When the process began, in clock ticks since the machine did: tells it from a later one with the same id."""
    step: int
    """Steps done."""
    doing: str
    seconds: float | None
    """Longest time that it may take; None where the program has no limit for it."""
    monotonic: float
    """When the file was written, in seconds of CLOCK_MONOTONIC, which all processes of a machine share."""
    time: float
    """The same as Unix time in seconds, for people."""

    def why_stuck(self, grace_seconds: float) -> str:
        """Return what is wrong, empty while nothing is: the process has ended, or has its limit and the grace left."""
        age = time.monotonic() - self.monotonic
        if self.seconds is None or age <= self.seconds + grace_seconds:
            return ""
        if _process_start(self.pid) != self.process_start:
            return ""
        limit = f"longer than {self.seconds:g} s and a grace of {grace_seconds:g} s"
        return f"rank {self.rank} has been at {self.doing} after step {self.step} for {age:.0f} s, {limit}"


class Heartbeat:
    """Writes `<folder>/heartbeat-rank-00000`: at once when something else begins, else at most once a second."""

    def __init__(self, folder: Path, *, rank: int) -> None:
        self.path = folder / f"heartbeat-rank-{rank:05d}"
        self._rank, self._step = rank, 0
        self._doing: tuple[str, float | None] = ("work", None)
        self._process_start = _process_start(os.getpid()) or 0
        self._last = float("-inf")

    def beat(self, step: int) -> None:
        """Report that a step is done."""
        self._step = step
        if time.monotonic() - self._last >= INTERVAL_SECONDS:
            self._write()

    def expect(self, what: str, seconds: float | None) -> None:
        """Report what begins now, and how long it may take; None has no limit."""
        begins = self._doing != (what, seconds)
        self._doing = (what, seconds)
        if begins or time.monotonic() - self._last >= INTERVAL_SECONDS:
            self._write()

    def _write(self) -> None:
        """Replace the file, or remove it; not forced to disk, for only processes of the same machine read it."""
        self._last = time.monotonic()
        what, seconds = self._doing
        beat = Beat(
            rank=self._rank,
            pid=os.getpid(),
            process_start=self._process_start,
            step=self._step,
            doing=what,
            seconds=seconds,
            monotonic=self._last,
            time=time.time(),
        )
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        try:
            temporary.write_text(json.dumps(asdict(beat)) + "\n", encoding="utf-8")
            temporary.replace(self.path)
        except OSError as error:
            # an old file would say that the rank is stuck
            self.path.unlink(missing_ok=True)
            logger.warning("%s: not written: %s", self.path, error)


def stuck(folder: Path, grace_seconds: float) -> list[str]:
    """Return what is wrong with the ranks whose files are in a folder, one sentence for each that is stuck.

    A file that is absent or cannot be read says nothing: the program may be starting, or may write none. Neither does
    that of a process that has ended, such as one before a restart: what started it sees that by itself.

    Args:
        folder: Scratch folder of the worker.
        grace_seconds: Time beyond a limit in which the program may end by itself, with a message.
    """
    beats = [_beat(path) for path in sorted(folder.glob(PATTERN))]
    reasons = [beat.why_stuck(grace_seconds) for beat in beats if beat is not None]
    return [reason for reason in reasons if reason]


def main() -> None:
    """Say whether a rank of this pod has stood still for longer than it may.

    Raises:
        SystemExit: 1 when a rank is stuck, 2 for wrong arguments.
    """
    parser = argparse.ArgumentParser(description=(main.__doc__ or "").partition("\n")[0])
    parser.add_argument("--work_dir", type=Path, default=FOLDER, help=f"where the ranks write (default: {FOLDER})")
    grace_help = "time beyond a limit in which a rank may end by itself (default: 60)"
    parser.add_argument("--grace_seconds", type=float, default=60.0, help=grace_help)
    options = parser.parse_args()
    if not options.grace_seconds >= 0:
        parser.error(f"grace_seconds={options.grace_seconds}: must be at least 0")
    reasons = stuck(options.work_dir, options.grace_seconds)
    if reasons:
        sys.exit("\n".join(reasons))


def _beat(path: Path) -> Beat | None:
    try:
        return Beat(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        # being replaced, or of another release
        return None


def _process_start(pid: int) -> int | None:
    """Return field 22 of /proc/<pid>/stat (proc_pid_stat(5)), None without such a process.

    The name in field 2 may itself contain spaces and brackets: what follows the last bracket begins with field 3.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


if __name__ == "__main__":
    main()
