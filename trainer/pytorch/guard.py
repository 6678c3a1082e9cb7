"""A thread in each rank that ends a wait which nothing else would end.

A rank whose peer is gone waits in C++ for a collective that never completes: for NCCL in a kernel on the GPU, where a
lost peer is only silent. Python's signal handlers do not run meanwhile, so SIGTERM achieves nothing, and the
pod is killed at the end of its grace period. This thread sees the signal, the lost peer and a wait that is too long,
and aborts the communicators: the main thread returns, meets `raise_if_cut`, and says what happened.

First it writes what all threads are doing, which is lost with the process.

Aborting is NCCL's (ncclCommAbort); gloo has nothing like it (torch 2.15: `abort` returns and changes nothing). Where
the main thread does not come back, this thread ends the process.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.peers import PeerWatch
    from trainer.training.signals import StopRequest

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
_MARGIN_SECONDS = 5.0
"""Gloo ends its own waits at the same limit, with a message that names the connection: it goes first, and the main
thread dumps what this thread would."""
_RETURN_SECONDS = 5.0
"""Seconds from the abort to the end of the process, in which the main thread writes why it failed."""
_DUMP_SECONDS = 2.0
"""Longest wait for the stacks to be written."""
LOST_EXIT_STATUS = 75
"""Status where only ending the process ended the wait: EX_TEMPFAIL of sysexits.h, try again."""
_AFTER_TIMEOUT = "Application timeout caused pair closure"
"""Gloo's message about a connection that it closed because another collective had waited too long for it."""
_GLOO_ERROR = re.compile(rf"(?:\[\S*gloo/transport/\S+\] |(?={_AFTER_TIMEOUT}))(?P<what>.+?)(?:\. |$)", re.DOTALL)
"""Gloo's errors have no type of their own; the place in its code is that of connections."""


_TIMED_OUT = ("Timed out", _AFTER_TIMEOUT)
"""Beginnings of gloo's errors for waits that were too long; for others the connection is closed."""


class PeersLostError(RuntimeError):
    """The ranks can no longer talk to each other: a peer is gone, or one waited longer than allowed.

    Attributes:
        waited: whether gloo ended a wait that was too long: the other rank may hang.
    """

    def __init__(self, message: str, *, waited: bool = False) -> None:
        super().__init__(message)
        self.waited = waited


def lost_connection(error: Exception) -> PeersLostError | None:
    """Return the meaning of an error of gloo about a connection; None for any other error."""
    of_gloo = _GLOO_ERROR.search(str(error)) if isinstance(error, RuntimeError) else None
    if of_gloo is None:
        return None
    what = of_gloo["what"]
    message = f"another rank is gone, its own log or exit status says why, or it hangs: {what}"
    return PeersLostError(message, waited=what.startswith(_TIMED_OUT))


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """The activity of the main thread, and its time limit."""

    what: str
    seconds: float
    ends_with_step: bool = False
    begin: float = field(default_factory=time.monotonic)


class Guard:
    """Watches the main thread's waits; one per process."""

    def __init__(
        self, abort: Callable[[], None] | None, dump_stacks: Callable[[], None], *, stop_timeout_seconds: float
    ) -> None:
        """Start to watch.

        Args:
            abort: makes the collectives of this process return; called once, from the guard's thread. None
                where there are none: then what takes too long is reported, and only ended after a stop signal.
            dump_stacks: writes what all threads are doing; called from a thread of its own.
            stop_timeout_seconds: longest that a step may continue after a stop signal.
        """
        self._abort, self._dump_stacks = abort, dump_stacks
        self._stop_timeout_seconds = stop_timeout_seconds
        self._stop: StopRequest | None = None
        self._stop_seen_at: float | None = None
        self._peers: PeerWatch | None = None
        self._limit = _Limit(what="start", seconds=math.inf)
        self._reason: str | None = None
        self._closed = threading.Event()
        self._returned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    def watch(self, stop: StopRequest | None, peers: PeerWatch | None) -> None:
        """Look for a stop signal and for lost peers from now on; None ends that."""
        self._stop, self._peers = stop, peers

    def allow(self, what: str, seconds: float, *, ends_with_step: bool = False) -> None:
        """Set the time limit of what begins now; less after a stop signal if it should soon end, with a step."""
        self._limit = _Limit(what=what, seconds=seconds, ends_with_step=ends_with_step)

    def raise_if_cut(self) -> None:
        """Refuse to use what the last collectives returned, if they were aborted.

        Raises:
            PeersLostError: saying why.
        """
        if self._reason is not None:
            self._returned.set()
            raise PeersLostError(self._reason)

    @property
    def has_cut(self) -> bool:
        """Whether the communicators are aborted."""
        return self._reason is not None

    def close(self) -> None:
        """End the watch; the main thread is back."""
        self._returned.set()
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        reported: _Limit | None = None
        while not self._closed.wait(POLL_SECONDS):
            limit = self._limit
            late_stop = self._late_stop(limit)
            reason = late_stop or self._reason_to_cut(limit)
            if reason is None or limit is reported:
                continue
            reported = limit
            if self._abort is not None or late_stop is not None:
                self._cut(reason)
                return
            logger.error("%s; the stacks of all threads follow", reason)
            self._dump()

    def _reason_to_cut(self, limit: _Limit) -> str | None:
        if self._peers is not None and self._peers.lost is not None:
            return self._peers.lost
        now = time.monotonic()
        if now - limit.begin > limit.seconds + _MARGIN_SECONDS:
            return f"{limit.what} took longer than {limit.seconds:g} s: some rank hangs, or is gone"
        return None

    def _late_stop(self, limit: _Limit) -> str | None:
        if self._stop is None or not self._stop.arrived():
            return None
        now = time.monotonic()
        self._stop_seen_at = self._stop_seen_at or now
        waited = now - max(limit.begin, self._stop_seen_at)
        if not limit.ends_with_step or waited <= self._stop_timeout_seconds:
            return None
        cause = "it hangs" if self._abort is None else "another rank is gone"
        return (
            f"asked to stop, and the step was not done {self._stop_timeout_seconds:g} s later: {cause}, or steps take "
            "longer and need a higher --stop_timeout_seconds"
        )

    def _dump(self) -> None:
        """Write the stacks before an abort changes them; not for long, for the volume may be what hangs."""
        dump = threading.Thread(target=self._dump_stacks, name="stacks", daemon=True)
        dump.start()
        dump.join(_DUMP_SECONDS)

    def _cut(self, reason: str) -> None:
        """Abort; the reason comes first, for whatever a collective returns from here on is not to be used."""
        self._reason = reason
        logger.error("%s; %s", reason, "the stacks follow" if self._abort is None else "aborting the communicators")
        self._dump()
        if self._abort is not None:
            # in a thread of its own: it waits for NCCL, which may itself wait forever
            threading.Thread(target=self._abort, name="abort", daemon=True).start()
        if not self._returned.wait(_RETURN_SECONDS):
            logger.error("the main thread did not return: ending the process")
            os._exit(LOST_EXIT_STATUS)
