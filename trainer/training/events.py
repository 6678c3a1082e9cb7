"""Events for people and programs: an event log per rank, messages on standard error."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainer.common import log_lines
from trainer.common.log_lines import FIELDS_ATTRIBUTE, json_line, know

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

logger = logging.getLogger("trainer")

_SAME_ON_EVERY_RANK = frozenset({"step", "evaluated", "checkpoint_saved", "all_reduce"})
"""Events that only rank 0 logs: a thousand ranks would fill the log store with one and the same line."""

_WORDED: Mapping[str, Callable[[Any], str]] = {
    "seconds_left": lambda seconds: str(timedelta(seconds=round(seconds))),
    "memory_peak_bytes": lambda size: f"{size / 2**20:.0f}MiB",
}
"""Fields whose values people read in another unit; programs read them as they are."""


class EventLog:
    """Appends one JSON object per line to `<folder>/rank-00000.jsonl`; survives restarts of the process.

    Every line has: time (RFC 3339, UTC), job, rank, step, event, attempt (restarts by torchrun so far).
    """

    def __init__(self, folder: Path, *, job: str, rank: int) -> None:
        self.path = folder / f"rank-{rank:05d}.jsonl"
        self._fixed = {"job": job, "rank": rank, "attempt": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))}
        know(**self._fixed)
        # unbuffered: a kill loses no line, and a line that found no space does not come back later
        self._file = self.path.open("ab", buffering=0)

    def write(self, event: str, *, step: int, **fields: Any) -> None:  # noqa: ANN401  any JSON value
        """Append an event and say it to people; a full disk loses events, it does not end training.

        What happens on every rank in the same way, only rank 0 says.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        know(step=step)
        known = {**self._fixed, "step": step, "event": event, **fields}
        try:
            self._file.write(json_line({"time": now, **known}).encode() + b"\n")
        except OSError as error:
            logger.warning("%s: event not written: %s", self.path, error)
        if self._fixed["rank"] == 0 or event not in _SAME_ON_EVERY_RANK:
            text = " ".join([event, f"step={step}", *(f"{key}={_short(key, fields[key])}" for key in fields)])
            logger.info("%s", text, extra={FIELDS_ATTRIBUTE: known})

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def log_to_stderr() -> None:
    """Show the messages of this package on standard error, where `kubectl logs` finds them."""
    log_lines.log_to_stderr(logger)


def _short(name: str, value: Any) -> str:  # noqa: ANN401  any JSON value
    if word := _WORDED.get(name):
        return word(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
