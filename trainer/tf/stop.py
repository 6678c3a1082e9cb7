"""Stop requests during calls of TensorFlow's C++ code, which keep the main thread busy."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

from trainer.training.signals import STOP_SIGNALS, STOPPED_EXIT_STATUS


class Stop:
    """Ends the process at once when a stop signal comes, or only remembers it after `remember_only`.

    Python runs signal handlers in the main thread between two of its own instructions: a process that waits in
    TensorFlow for a cluster or a collective would not hear SIGTERM, and as process 1 of a container it would not even
    die of it. The wake-up descriptor is written by the signal itself, so a thread of its own hears it always.
    """

    def __init__(self) -> None:
        self._remember_only = False
        self._requested = threading.Event()
        self._read, self._write = socket.socketpair()
        self._write.settimeout(0)
        self.take_signals()
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._listen, name="stop", daemon=True).start()

    @property
    def requested(self) -> bool:
        """Whether a stop signal came."""
        return self._requested.is_set()

    def take_signals(self) -> None:
        """Hear the stop signals, again where somebody else took them: TensorFlow's coordination service does so."""
        for number in STOP_SIGNALS:
            signal.signal(number, lambda _number, _frame: None)

    def remember_only(self) -> None:
        """Leave it to the caller from now on to look at `requested` and to end."""
        self._remember_only = True

    def wait(self, seconds: float) -> bool:
        """Wait for a stop signal, at most that long; tell whether one has come."""
        return self._requested.wait(seconds)

    def _listen(self) -> None:
        while received := self._read.recv(16):
            if any(number in STOP_SIGNALS for number in received):
                self._requested.set()
                if not self._remember_only:
                    leave(STOPPED_EXIT_STATUS)


def leave(status: int) -> None:
    """End the process without unwinding: TensorFlow's gRPC servers cannot be shut down and may hang in destructors."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
