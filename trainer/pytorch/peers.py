"""Detection of dead ranks through the store that all ranks share, and nothing else.

Each rank counts up a number of its own and reads that of the next rank, in a ring: three small requests per rank and
interval, whatever the number of ranks. A rank that finds its neighbour silent reports it in the store, which all read.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

_BEATS_PER_TIMEOUT = 6
_LOST = "athanor/lost"


class PeerWatch:
    """A thread that knows after `timeout_seconds` that a peer is gone: killed, frozen, cut off, its node vanished.

    A process that is alive and hangs keeps counting: that is for the limits of `Guard.allow`.

    Attributes:
        lost: what is known of a lost peer, None as long as there is none.
    """

    def __init__(self, store: Store, *, rank: int, world_size: int, timeout_seconds: float) -> None:
        """Start to count; `store` is used by this thread alone.

        Raises:
            RuntimeError: the store does not answer.
        """
        self.lost: str | None = None
        self._store = store
        self._rank = rank
        self._next = (rank + 1) % world_size
        self._timeout_seconds = timeout_seconds
        self._interval_seconds = timeout_seconds / _BEATS_PER_TIMEOUT
        store.set_timeout(timedelta(seconds=max(1.0, self._interval_seconds)))
        # Before the first step, so that a rank that is lost in its first moments is missed as well.
        store.set(_key(rank), "0")
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop counting."""
        self._closed.set()
        self._thread.join(timeout=self._interval_seconds)

    def _run(self) -> None:
        beat, seen, changed_at = 0, b"", time.monotonic()
        while self.lost is None and not self._closed.wait(self._interval_seconds):
            beat += 1
            silent = f"rank {self._next} gave no sign of life"
            try:
                value = self._exchange(beat)
            except RuntimeError as error:
                silent, value = f"the store that the ranks met in does not answer ({_first_line(error)})", seen
            if value is None or value != seen:
                seen, changed_at = value or b"", time.monotonic()
            elif time.monotonic() - changed_at > self._timeout_seconds:
                self._report(f"{silent} for {self._timeout_seconds:g} s")

    def _exchange(self, beat: int) -> bytes | None:
        """Count up, and return what the next rank has counted to; None before it counts: it starts at its own pace."""
        self._store.set(_key(self._rank), str(beat))
        if self._store.check([_LOST]):
            self.lost = self._store.get(_LOST).decode()
        following = _key(self._next)
        return self._store.get(following) if self._store.check([following]) else None

    def _report(self, lost: str) -> None:
        self.lost = lost
        try:
            self._store.set(_LOST, lost)
        except RuntimeError:
            return  # the others see for themselves that the store is gone


def _key(rank: int) -> str:
    return f"athanor/alive/{rank}"


def _first_line(error: RuntimeError) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
