"""How long a part of a step took where it was computed: on a GPU the calls return long before the work is done."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Measures from its making to `stop`, on the timeline of a device."""

    def __init__(self, device: torch.device) -> None:
        self._events = _events() if device.type == "cuda" else None
        self._begin = time.perf_counter()
        self._end = self._begin
        if self._events:
            self._events[0].record()

    def stop(self) -> None:
        """End the measurement; on a GPU where the work that was asked for so far ends."""
        self._end = time.perf_counter()
        if self._events:
            self._events[1].record()

    def seconds(self) -> float:
        """Return the time between; on a GPU only after something has waited for the work."""
        if self._events:
            return self._events[0].elapsed_time(self._events[1]) / 1000
        return self._end - self._begin


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
