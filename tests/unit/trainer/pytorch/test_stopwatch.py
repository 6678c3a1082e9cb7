"""Where a part of a step is timed: on the CPU, or on the timeline of a GPU. No GPU here: its events are stand-ins."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Variable

from trainer.pytorch import stopwatch
from trainer.pytorch.stopwatch import Stopwatch


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


def test_it_ends_with_the_gradients_and_before_whatever_is_done_after_them(monkeypatch):
    """As DistributedDataParallel does, something queues a wait during the backward pass."""
    done = []
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda _: done.append("gradient"))
    weight.register_hook(lambda _: Variable._execution_engine.queue_callback(lambda: done.append("wait")))
    watch = Stopwatch(torch.device("cpu"))
    monkeypatch.setattr(watch, "stop", lambda: done.append("stop"))
    loss = weight.sum()
    watch.stop_after_gradients_of(loss)
    loss.backward()
    assert done == ["gradient", "stop", "wait"]
