"""The batches of one loaded version: requests that wait are run together.

While the model is idle a request starts at once, unless its configuration asks to wait for more. While it is busy
requests gather, and the next call takes as many as fit: the batch grows with the load by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trainer.model_repository import torch_error
from trainer.serve import metrics
from trainer.serve.errors import ModelLoadError, RequestError, WorkerDiedError
from trainer.serve.protocol.tensors import Array, shorten
from trainer.serve.request_queue import RequestQueue, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.request_log import RequestRecord
    from trainer.serve.servable import Servable

logger = logging.getLogger(__name__)

_MAX_DEATHS = 2
"""Deaths of the model's process during one request: more would be the request's fault, and cost the others their
model."""

_Outcome = list[Array] | RequestError


@dataclass(slots=True, eq=False)
class _Batch:
    requests: list[Waiting]
    started: float
    calls: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Rows and seconds of each call that gave outcomes: not of one whose requests ran again, each alone."""
    seconds: float = 0.0


class Batcher:
    """Queue, worker threads and numbers of one version; its methods belong to the event loop's thread."""

    def __init__(self, model: Servable, numbers: metrics.VersionMetrics, default_queue_size: int) -> None:
        self.model = model
        self.numbers = numbers
        self._loop = asyncio.get_running_loop()
        self._queue = RequestQueue(model.spec.batching, default_queue_size, self._loop, self._count_rejected)
        self._on_drained: Callable[[], None] | None = None
        self._logged_failure = ""
        # zeros, too: Prometheus sees no increase of a series that begins at 1
        priorities = range(1, len(model.spec.batching.policies) + 1)
        numbers.rejected.update({(cause, each): 0 for each in priorities for cause in metrics.REJECTION_CAUSES})
        numbers.pending_requests = self._queue.count_waiting
        numbers.running_batches = lambda: self._queue.running
        self._threads = [
            # daemon: a model that never returns must not keep the process from ending
            threading.Thread(target=self._work, name=f"model-{model.version}-{place}", daemon=True)
            for place in range(model.spec.instances)
        ]
        self._alive = len(self._threads)
        for thread in self._threads:
            thread.start()

    def submit(self, request: InferRequest, record: RequestRecord | None = None) -> asyncio.Future[list[Array]]:
        """Queue a request; the future gives its outputs, or raises a RequestError where the model failed.

        Raises:
            RequestError: 429, the queue is full.
        """
        future: asyncio.Future[list[Array]] = self._loop.create_future()
        shapes = tuple(array.shape[1:] for array in request.inputs)
        waiting = Waiting(request.inputs, request.rows, shapes, future, time.perf_counter(), request.id, record)
        self._queue.add(waiting, request.priority, request.timeout_us)
        return future

    def retire(self, on_drained: Callable[[], None]) -> None:
        """Finish what waits, then end the threads and call `on_drained`. Nothing may be submitted any more."""
        self._on_drained = on_drained
        self._queue.end()

    def _finish(self, batch: _Batch, outcomes: list[_Outcome]) -> None:
        self._count(batch)
        answered: list[Waiting] = []
        for request, outcome in zip(batch.requests, outcomes, strict=True):
            if request.record is not None:
                request.record.compute_began = batch.started
                request.record.compute_ended = batch.started + batch.seconds
                request.record.batch_rows = request.call_rows
            if request.future.cancelled():
                continue
            if isinstance(outcome, RequestError):
                self.numbers.request_failure[metrics.BACKEND] += 1
                request.future.set_exception(outcome)
            else:
                answered.append(request)
                request.future.set_result(outcome)
        self._count_answered(batch, answered)

    def _thread_ended(self) -> None:
        """Come after the last `_finish` of each thread."""
        self._alive -= 1
        if not self._alive and self._on_drained is not None:
            self._on_drained()

    def _count_rejected(self, cause: metrics.RejectionCause, priority: int) -> None:
        self.numbers.request_failure[metrics.REJECTED] += 1
        self.numbers.rejected[cause, priority] += 1

    def _count(self, batch: _Batch) -> None:
        for rows, seconds in batch.calls:
            self.numbers.execution_count += 1
            self.numbers.batch_size.observe(rows)
            size = self.numbers.batches[rows]
            size.calls += 1
            size.duration_us += round(seconds * 1e6)

    def _count_answered(self, batch: _Batch, answered: list[Waiting]) -> None:
        """Count rows and times of those that succeed alone, as Triton does: clients divide by their number."""
        self.numbers.inference_count += sum(request.rows for request in answered)
        queued = sum(batch.started - request.enqueued for request in answered)
        self.numbers.queue_duration_us += round(queued * 1e6)
        self.numbers.compute_infer_duration_us += round(batch.seconds * 1e6) * len(answered)

    def _work(self) -> None:
        """Call the model, batch after batch; with what it calls, the only part that runs on the worker threads."""
        # the loop is closed when the server did not wait for this batch: nobody wants the outcome
        with contextlib.suppress(RuntimeError):
            while requests := self._queue.get():
                batch = _Batch(requests, time.perf_counter())
                outcomes = self._run(batch, requests)
                batch.seconds = time.perf_counter() - batch.started
                self._queue.done()
                self._loop.call_soon_threadsafe(self._finish, batch, outcomes)
            self._loop.call_soon_threadsafe(self._thread_ended)

    def _run(self, batch: _Batch, requests: list[Waiting]) -> list[_Outcome]:
        rows = sum(request.rows for request in requests)
        for request in requests:
            request.call_rows = rows
        began = time.perf_counter()
        try:
            outputs = self.model.infer(_joined(requests))
            outcomes: list[_Outcome] = _split(outputs, requests, batched=self.model.spec.max_batch_size > 0)
        except RequestError as error:
            return [_own_error(error, request) for request in requests]
        except WorkerDiedError as error:
            return [outcome for request in requests for outcome in self._run_again(batch, request, error)]
        except Exception as error:  # noqa: BLE001  whatever a model raises, the others are served on
            if len(requests) > 1:
                # values of one request must not fail those that happened to wait with it
                return [outcome for request in requests for outcome in self._run(batch, [request])]
            reason = torch_error.reason(error)
            self._log_failure(reason, error, requests[0].id)
            outcomes = [RequestError(500, f"the model failed on this request: {reason}")]
        batch.calls.append((rows, time.perf_counter() - began))
        return outcomes

    def _run_again(self, batch: _Batch, request: Waiting, error: WorkerDiedError) -> list[_Outcome]:
        """Run a request alone in the restarted process: inference changes nothing, so that twice is as good as once."""
        request.deaths += 1
        if request.deaths < _MAX_DEATHS:
            return self._run(batch, [request])
        self._log_failure(str(error), error, request.id)
        reason = f"the model's process died {request.deaths} times with this request: {error}"
        # the request's fault as far as anybody can know: no status that proxies retry, which would end other servers'
        return [RequestError(500, f"{reason}. Fix: send other values")]

    def _log_failure(self, reason: str, error: Exception, request_id: str | None) -> None:
        """Log a reason once in a row: clients whose values the model cannot take must not fill the log."""
        if reason != self._logged_failure:
            self._logged_failure = reason
            name, version = self.model.spec.name, self.model.version
            request = "a request without id" if request_id is None else f"request {shorten(request_id)}"
            logger.error("%s version %d failed on %s", name, version, request, exc_info=error)


def _own_error(error: RequestError, request: Waiting) -> RequestError:
    """Return the error for one of a batch: every answer raises its own."""
    # what may have ended this server's process is not for another's
    elsewhere = error.retry_elsewhere and not request.deaths
    return RequestError(
        error.status, str(error), retry_after_seconds=error.retry_after_seconds, retry_elsewhere=elsewhere
    )


def _joined(requests: list[Waiting]) -> list[Array]:
    """Put the rows of the requests under each other; a copy even for one: theirs are read-only and unaligned."""
    if len(requests) == 1:
        return [np.array(array, order="C") for array in requests[0].inputs]
    return [np.concatenate(arrays) for arrays in zip(*(request.inputs for request in requests), strict=True)]


def _split(outputs: list[Array], requests: list[Waiting], *, batched: bool) -> list[_Outcome]:
    """Give each request its rows of the outputs."""
    if not batched:
        return [outputs]
    rows = sum(request.rows for request in requests)
    for array in outputs:
        if array.ndim == 0 or array.shape[0] != rows:
            raise ModelLoadError(f"an output has shape {list(array.shape)} for a batch of {rows}")
    parts: list[_Outcome] = []
    begin = 0
    for request in requests:
        parts.append([array[begin : begin + request.rows] for array in outputs])
        begin += request.rows
    return parts
