"""Event files for TensorBoard.

Source: tensorflow/core/util/event.proto and tensorflow/core/lib/io/record_writer.h, as tensorboardX has them. Its own
SummaryWriter hands events to a thread behind a queue: when a full disk ends that thread, the queue fills up and
training waits forever. Here the few numbers are written directly, and an error loses only those.
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 10.0
"""Seconds between flushes: reaching the disk takes a network volume milliseconds."""


class EventFile:
    """Appends scalars to `<folder>/events.out.tfevents.…`; every process of a run has a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first_step = 1
        self._writer: Any = None
        self._synced_at = 0.0

    def begin_at(self, step: int) -> None:
        """Make readers discard what earlier processes wrote of this step and of later ones: they are done again."""
        self._first_step = step

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append the values of a step by their tags; a full disk loses values, it does not end training."""
        try:
            if self._writer is None:
                self._open()
            self._append(step=step, summary={"value": [{"tag": tag, "simple_value": scalars[tag]} for tag in scalars]})
            if time.monotonic() - self._synced_at >= _SYNC_SECONDS:
                self._sync()
        except OSError as error:
            logger.warning("%s: TensorBoard's values of step %d not written: %s", self._folder, step, error)
            # whatever follows half a record cannot be read, so the next values go into another file
            self._drop()
        else:
            self._first_step = step + 1

    def close(self) -> None:
        """Write what is still in memory."""
        if self._writer is None:
            return
        try:
            self._sync()
        except OSError as error:
            logger.warning("%s: the latest of TensorBoard's values not written: %s", self._folder, error)
        self._drop()

    def _open(self) -> None:
        # imported here: other ranks and other programs do not need it
        from tensorboardX.record_writer import RecordWriter  # noqa: PLC0415

        # readers take the files in the order of their names
        now = time.time_ns()
        name = f"events.out.tfevents.{now // 10**9}.{socket.gethostname()}.{now}"
        self._writer = RecordWriter(str(self._folder / name))
        self._append(file_version="brain.Event:2")
        self._append(step=self._first_step, session_log={"status": "START"})
        self._sync()

    def _append(self, **fields: Any) -> None:  # noqa: ANN401  the fields of event.proto
        from tensorboardX.proto import event_pb2  # noqa: PLC0415

        messages = cast("Any", event_pb2)  # its classes are created when it is imported
        self._writer.write(messages.Event(wall_time=time.time(), **fields).SerializeToString())

    def _sync(self) -> None:
        self._writer.flush()
        self._synced_at = time.monotonic()

    def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):
                writer.close()
