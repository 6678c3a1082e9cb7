"""A model that runs when a test says so, and the batcher in front of it."""

import asyncio
import contextlib
import threading
from types import SimpleNamespace

import numpy as np

from trainer.serve import metrics
from trainer.serve.batcher import Batcher
from trainer.serve.batching_config import Batching, QueuePolicy
from trainer.serve.protocol.infer_request import InferRequest

INTERPRETER = "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript"


class GatedModel:
    """Doubles its input, one call per permit; fails on negative values."""

    version = 1

    def __init__(
        self, *, max_batch_size=4, batches_requests=True, instances=1, max_queue_size=None, policies=(), **batching
    ):
        self.spec = SimpleNamespace(
            name="digits",
            max_batch_size=max_batch_size,
            instances=instances,
            batching=Batching(
                max_rows=max_batch_size if batches_requests else 0,
                policies=policies or (QueuePolicy(max_queue_size=max_queue_size),),
                **batching,
            ),
        )
        self.calls: list[list[float]] = []
        self.permits = threading.Semaphore(0)
        self.busy = threading.Semaphore(0)

    def infer(self, inputs):
        self.busy.release()
        assert self.permits.acquire(timeout=60)
        (array,) = inputs
        assert array.flags.writeable
        assert array.flags.aligned
        self.calls.append(array[:, 0].tolist())
        if (array < 0).any():
            raise RuntimeError(f"{INTERPRETER}\n  raise\n  ~~~~~ <--- HERE\nRuntimeError: negative")
        return [array * 2]

    def allow(self, calls):
        self.permits.release(calls)

    async def wait_until_busy(self):
        await asyncio.to_thread(self.busy.acquire, timeout=60)


def rows(*values, width=1):
    array = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
    array.flags.writeable = False
    return [array]


def request(*values, width=1, **asked):
    return InferRequest(id="a-7", inputs=rows(*values, width=width), outputs=[], rows=len(values), **asked)


@contextlib.asynccontextmanager
async def batcher_of(model):
    numbers = metrics.VersionMetrics(model="digits", version=1)
    batcher = Batcher(model, numbers, default_queue_size=8)
    yield batcher
    drained = asyncio.Event()
    batcher.retire(drained.set)
    model.allow(100)
    await asyncio.wait_for(drained.wait(), 60)
    for thread in batcher._threads:
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()


async def waiting_together(batcher, model, *values):
    """Return what requests will give that began to wait while the model was busy with another one, of the value 0."""
    first = batcher.submit(request(0))
    await model.wait_until_busy()
    futures = [batcher.submit(request(value)) for value in values]
    model.allow(100)
    await asyncio.wait([first])
    return futures


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 60))
