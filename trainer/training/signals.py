"""Stop signals: SIGTERM from Kubernetes (passed on by torchrun), SIGINT from terminals, SIGUSR1 from mpirun."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""With SIGUSR1, because mpirun that gets SIGTERM kills its ranks half a second later, whatever its settings say (seen
with Open MPI 5.0.11), too early for a checkpoint; SIGUSR1 it only passes on."""

STOPPED_EXIT_STATUS = 128 + signal.SIGTERM
"""Status after a stop on request. Not 0: torchrun and Kubernetes would take the unfinished job for a success."""


class StopRequest:
    """Remembers that a stop signal came; the training loop looks between two steps."""

    def __init__(self) -> None:
        self.requested = False
        # Python runs its handlers in the main thread, between two of its own instructions: never while that thread
        # waits in C++ for a collective. The wakeup descriptor is written at once, by the handler in C.
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}

    def arrived(self) -> bool:
        """Return whether a stop signal came, also while the main thread is blocked; for one other thread."""
        try:
            received = self._reader.recv(4096)
        except OSError:  # nothing came, or `close` was quicker than the thread that asks
            received = b""
        if any(number in received for number in STOP_SIGNALS):
            self.requested = True
        return self.requested

    def close(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
