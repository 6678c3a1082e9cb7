"""The queue of requests for a model: by priority, with timeouts, and the choice of the next batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from trainer.serve.errors import RequestError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from trainer.serve.batching_config import Batching, QueuePolicy
    from trainer.serve.metrics import RejectionCause
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.request_log import RequestRecord

_Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True, eq=False)
class Waiting:
    """A request in the queue."""

    inputs: list[Array]
    rows: int
    shapes: _Shapes
    """Shapes of one row of each input: only equal ones fit into one batch."""
    future: asyncio.Future[list[Array]]
    enqueued: float
    id: str | None = None
    record: RequestRecord | None = None
    """Gets the times of the batch."""
    taken: bool = False
    """It is part of a batch."""
    call_rows: int = 0
    """Rows of the call of the model that it was part of last."""
    deaths: int = 0
    """Number of times that the model's process died while it computed this request."""


@dataclass(slots=True, eq=False)
class _Level:
    """The requests that wait at one priority."""

    priority: int
    in_time: deque[Waiting]
    late: deque[Waiting]
    """Requests that waited too long where the policy is to delay them."""


class RequestQueue:
    """The event loop adds, the model's threads take: a model that is ready waits for no turn of the loop.

    In one turn the loop may read a request from each connection, which takes as long as a batch or longer.
    """

    def __init__(
        self,
        batching: Batching,
        default_size: int,
        loop: asyncio.AbstractEventLoop,
        on_rejected: Callable[[RejectionCause, int], None],
    ) -> None:
        """Call `on_rejected`, in the loop's thread, for each request that is refused."""
        self._batching = batching
        self._default_size = default_size
        self._loop = loop
        self._on_rejected = on_rejected
        self._levels = [_Level(place + 1, deque(), deque()) for place in range(len(batching.policies))]
        self._lanes = [lane for level in self._levels for lane in (level.in_time, level.late)]
        self._lock = threading.RLock()
        """Guards the lanes and what follows."""
        self._idle = 0
        """Threads that wait for requests and that nobody has woken."""
        self._running = 0
        self._ending = False
        self._wake_ups: SimpleQueue[None] = SimpleQueue()
        """One for each thread that is to look again. A threading.Condition costs several times as much."""

    @property
    def running(self) -> int:
        """Number of batches that were taken and are not done."""
        return self._running

    def add(self, waiting: Waiting, priority: int = 0, timeout_us: int = 0) -> None:
        """Queue a request; `timeout_us` is what it asked for itself, 0 for nothing. For the loop's thread.

        Raises:
            RequestError: 429, the queue is full.
        """
        number = self._batching.priority(priority)
        policy, level = self._batching.policies[number - 1], self._levels[number - 1]
        with self._lock:
            self._check_room(policy, level)
            level.in_time.append(waiting)
            self._wake(1)
        if wait_us := policy.wait_us(timeout_us):
            expire = self._delay if policy.delays_on_timeout else self._reject
            timer = self._loop.call_later(wait_us / 1e6, expire, waiting, level, wait_us)
            # any outcome ends it, in the loop's thread: only there may a timer be cancelled
            waiting.future.add_done_callback(lambda _: timer.cancel())

    def get(self) -> list[Waiting]:
        """Wait for the next batch and take it; none once nothing waits after `end`. For the model's threads.

        Each batch is to be followed by a call of `done`.
        """
        while True:
            with self._lock:
                batch = self._take()
                if batch or self._ending:
                    self._running += bool(batch)
                    return batch
                self._idle += 1
                seconds = self._seconds_until_ready()
            try:
                self._wake_ups.get(timeout=seconds)
            except Empty:
                self._stop_waiting()

    def done(self) -> None:
        """Say that a batch is no longer in the model."""
        with self._lock:
            self._running -= 1

    def end(self) -> None:
        """Wait for no further requests: what is there runs at once, then `get` returns nothing."""
        with self._lock:
            self._ending = True
            self._wake(self._idle)

    def _wake(self, threads: int) -> None:
        for _ in range(min(threads, self._idle)):
            self._idle -= 1
            self._wake_ups.put(None)

    def _stop_waiting(self) -> None:
        """Wait no longer, or take the wake-up that came in the same moment."""
        with self._lock:
            try:
                self._wake_ups.get_nowait()
            except Empty:
                self._idle -= 1

    def count_waiting(self) -> int:
        """Return for how many requests a client waits."""
        with self._lock:
            return sum(1 for _ in self._in_order())

    def _check_room(self, policy: QueuePolicy, level: _Level) -> None:
        # the policy's limit is for its priority, the server's for all
        lanes = self._lanes if policy.max_queue_size is None else (level.in_time, level.late)
        limit = self._default_size if policy.max_queue_size is None else policy.max_queue_size
        length = sum(map(len, lanes))
        if length >= limit:
            # only now: looking for them with each request would cost more than they do
            self._drop_cancelled()
            length = sum(map(len, lanes))
        if length >= limit:
            self._on_rejected("queue_full", level.priority)
            message = f"{length} requests wait for the model; limit: {limit}. Fix: retry later, or run more replicas"
            raise RequestError(429, message, retry_after_seconds=1)

    def _take(self) -> list[Waiting]:
        """Take the requests of the next batch; none where more are awaited for it, or nothing waits."""
        count = self._count_ready()
        taken: list[Waiting] = []
        for lane in self._lanes:
            while lane and (len(taken) < count or lane[0].future.done()):
                waiting = lane.popleft()
                waiting.taken = True
                if not waiting.future.done():
                    taken.append(waiting)
        return taken

    def _seconds_until_ready(self) -> float | None:
        """Return for how long more requests are awaited; None where nothing waits."""
        first = next(self._in_order(), None)
        if first is None:
            return None
        return max(0.0, first.enqueued + self._batching.max_delay_seconds - time.perf_counter())

    def _drop_cancelled(self) -> None:
        for lane in self._lanes:
            waiting = list(lane)
            lane.clear()
            lane.extend(request for request in waiting if not request.future.done())

    def _in_order(self) -> Iterator[Waiting]:
        return (waiting for lane in self._lanes for waiting in lane if not waiting.future.done())

    def _count_ready(self) -> int:
        """Return how many requests form the next batch: the oldest of the highest priority, and those that fit."""
        batching = self._batching
        count = rows = preferred = 0
        first: Waiting | None = None
        for waiting in self._in_order():
            if first is None:
                first = waiting
            elif rows + waiting.rows > batching.max_rows or waiting.shapes != first.shapes:
                return preferred or count
            count += 1
            rows += waiting.rows
            if rows in batching.preferred_sizes:
                preferred = count
            if rows >= batching.max_rows:
                return count
        if preferred or first is None:
            return preferred
        is_due = self._ending or time.perf_counter() >= first.enqueued + batching.max_delay_seconds
        return count if is_due else 0

    def _reject(self, waiting: Waiting, level: _Level, wait_us: int) -> None:
        if not self._leave(waiting, level):
            return
        self._on_rejected("timeout", level.priority)
        message = f"waited longer than {wait_us} microseconds for the model. Fix: retry later, or allow more time"
        waiting.future.set_exception(RequestError(503, message, retry_after_seconds=1))

    def _delay(self, waiting: Waiting, level: _Level, _wait_us: int) -> None:
        with self._lock:
            if self._leave(waiting, level):
                level.late.append(waiting)

    def _leave(self, waiting: Waiting, level: _Level) -> bool:
        """Take a request out that waited too long; whether it was still there."""
        with self._lock:
            if waiting.taken or waiting.future.done():
                return False
            level.in_time.remove(waiting)
            return True
