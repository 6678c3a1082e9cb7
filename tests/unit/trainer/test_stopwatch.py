"""Where a part of a step is timed: on the CPU, or on the timeline of a GPU. No GPU here: its events are stand-ins."""

from __future__ import annotations

import pytest
import torch

from trainer import stopwatch
from trainer.stopwatch import Stopwatch


def test_on_a_cpu_the_time_between_counts(monkeypatch):
    times = iter([10.0, 10.25])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    watch = Stopwatch(torch.device("cpu"))
    watch.stop()
    assert watch.seconds() == pytest.approx(0.25)


class Event:
    """Remembers when the GPU reached it, in milliseconds."""

    def __init__(self, timeline: list[float]) -> None:
        self._timeline = timeline
        self.reached: float | None = None

    def record(self) -> None:
        self.reached = self._timeline.pop(0)

    def elapsed_time(self, later: Event) -> float:
        return later.reached - self.reached


def test_on_a_gpu_its_own_timeline_counts(monkeypatch):
    timeline = [100.0, 350.0]
    monkeypatch.setattr(stopwatch, "_events", lambda: (Event(timeline), Event(timeline)))
    watch = Stopwatch(torch.device("cuda", 0))
    watch.stop()
    assert watch.seconds() == pytest.approx(0.25)
