"""Time of a part of a step on its device: on a GPU, calls return long before the work is done."""

from __future__ import annotations

import time

import torch
from torch.autograd import Variable


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

    def stop_after_gradients_of(self, loss: torch.Tensor) -> None:
        """End the measurement in the backward pass of `loss`, when this process has computed all its gradients.

        DistributedDataParallel starts to exchange gradients while others are still computed, and waits for the other
        ranks in a callback that it queues when its last gradients are there. Autograd calls such callbacks after the
        whole graph, in the order in which they were queued, on a GPU with the caller's stream behind all streams of
        the backward pass (torch/csrc/autograd/engine.cpp, GraphTask::exec_post_processing;
        torch/csrc/distributed/c10d/reducer.cpp, Reducer::mark_variable_ready). This one is queued where the backward
        pass begins, so it comes first, and costs the same for any number of parameters.
        """

        def queue(_gradient: torch.Tensor) -> None:
            engine = Variable._execution_engine  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  no public name
            engine.queue_callback(self.stop)

        loss.register_hook(queue)  # pyright: ignore[reportUnknownMemberType]

    def seconds(self) -> float:
        """Return the time between; on a GPU only after something has waited for the work."""
        if self._events:
            return self._events[0].elapsed_time(self._events[1]) / 1000
        return self._end - self._begin


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
