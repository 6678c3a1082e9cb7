"""Being asked to stop: SIGTERM from Kubernetes (passed on by torchrun), SIGINT from terminals, SIGUSR1 from mpirun."""

from __future__ import annotations

import signal
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
        self._previous = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}

    def close(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
