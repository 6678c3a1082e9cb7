"""Prefetching of a loader's next batches by a thread while a step computes.

A batch comes from another process over a socket, a pipe and shared memory, and is pinned for GPUs. That takes a
millisecond, and several on a busy machine, for which a step would wait though the batch was read long ago.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainer.pytorch.data.dataset import Batch

AHEAD = 4
"""Batches that wait for their steps: those of a message are there at once, and the next one may be late."""
_END_SECONDS = 10


class Prefetch:
    """The batches of an endless iterator, in their order, a few ahead."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        """Begin with the first batch."""
        self._taken: queue.Queue[Batch | Exception] = queue.Queue(maxsize=AHEAD)
        self._closed = threading.Event()
        # a daemon: a read that hangs with its volume must not keep the process
        self._thread = threading.Thread(target=self._take, args=(batches,), name="batches", daemon=True)
        self._thread.start()

    def take(self, seconds: float) -> Batch | None:
        """Return the next batch, or None if it is not there within so many seconds.

        Raises:
            Exception: what the iterator raised in its place; it has no more batches then.
        """
        try:
            taken = self._taken.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(taken, Exception):
            self._taken.put(taken)  # for one that asks again, which would wait forever
            raise taken
        return taken

    def close(self) -> None:
        """Release the iterator."""
        self._closed.set()
        with suppress(queue.Empty):
            self._taken.get_nowait()  # the thread may wait to add one more, its last
        self._thread.join(timeout=_END_SECONDS)

    def _take(self, batches: Iterator[Batch]) -> None:
        while not self._closed.is_set():
            try:
                self._taken.put(next(batches))
            except Exception as error:  # noqa: BLE001  it is the rank's, which raises it
                self._taken.put(error)
                return
