"""A delayed exit, bounded in time, so that Prometheus reads the last values of a run."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric

FIRST_SCRAPE_SECONDS = 15.0
"""Seconds from the start of the server after which no reader is expected: Prometheus has found the pod and come
once, or there is none."""
_LOOK_SECONDS = 0.1
"""Seconds within which a stop signal ends the wait: its handler runs in the waiting thread, and the wait then
continues."""


class LastScrape(Collector):
    """A part of a registry that notices when somebody begins to read it.

    It must be registered first: then all that was set before the beginning is in what is read.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._read_before = False
        self._read = threading.Event()

    def collect(self) -> Iterable[Metric]:
        """Take note; there is nothing of its own to tell."""
        self._read_before = True
        self._read.set()
        return []

    def describe(self) -> Iterable[Metric]:
        """Name no metric; without this the registry would call `collect` when it takes it in."""
        return []

    def wait(self, seconds: float, *, stop_requested: Callable[[], bool]) -> bool:
        """Wait until somebody begins to read, or is not expected to any more.

        Args:
            seconds: Longest wait. Where nobody has read yet it ends FIRST_SCRAPE_SECONDS after the beginning, too.
            stop_requested: Whether the process is asked to end, which ends the wait.

        Returns:
            Whether somebody has begun.
        """
        self._read.clear()
        end = time.monotonic() + seconds
        if not self._read_before:
            end = min(end, self._began + FIRST_SCRAPE_SECONDS)
        while not stop_requested() and (left := end - time.monotonic()) > 0:
            if self._read.wait(min(left, _LOOK_SECONDS)):
                return True
        return False
