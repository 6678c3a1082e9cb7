"""The queue in front of a model, with a model that runs when the test says so."""

import asyncio
import contextlib
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.serve import metrics
from trainer.serve.batcher import Batcher
from trainer.serve.errors import RequestError


class GatedModel:
    """Doubles its input, one call per permit; fails on negative values."""

    version = 1

    def __init__(self, *, max_batch_size=4, batches_requests=True, instances=1, max_queue_size=None):
        self.spec = SimpleNamespace(
            name="digits",
            max_batch_size=max_batch_size,
            batches_requests=batches_requests,
            instances=instances,
            max_queue_size=max_queue_size,
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
            raise RuntimeError("trace\n  of many lines\nRuntimeError: negative")
        return [array * 2]

    def allow(self, calls):
        self.permits.release(calls)

    async def wait_until_busy(self):
        await asyncio.to_thread(self.busy.acquire, timeout=60)


def rows(*values, width=1):
    array = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
    array.flags.writeable = False
    return [array]


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


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_waits_is_run_together_up_to_the_limit():
    async def scenario():
        model = GatedModel()
        async with batcher_of(model) as batcher:
            first = batcher.submit(rows(1), 1)
            await model.wait_until_busy()
            others = [batcher.submit(rows(value), 1) for value in (2, 3, 4, 5, 6)]
            large = batcher.submit(rows(7, 8, 9, 10), 4)
            model.allow(100)
            results = await asyncio.gather(first, *others, large)
            assert [array[:, 0].tolist() for (array,) in results] == [
                *([2.0], [4.0], [6.0], [8.0], [10.0], [12.0]),
                [14.0, 16.0, 18.0, 20.0],
            ]
            assert model.calls == [[1.0], [2.0, 3.0, 4.0, 5.0], [6.0], [7.0, 8.0, 9.0, 10.0]]
            assert batcher.numbers.execution_count == 4
            assert batcher.numbers.inference_count == 10

    run(scenario)


def test_requests_of_one_turn_of_the_loop_share_a_call():
    async def scenario():
        model = GatedModel()
        model.allow(1)
        async with batcher_of(model) as batcher:
            await asyncio.gather(*(batcher.submit(rows(value), 1) for value in (1, 2, 3)))
            assert model.calls == [[1.0, 2.0, 3.0]]

    run(scenario)


def test_other_shapes_and_models_without_batching_run_alone():
    async def scenario():
        for model in (GatedModel(), GatedModel(batches_requests=False)):
            model.allow(100)
            async with batcher_of(model) as batcher:
                width = 2 if model.spec.batches_requests else 1
                await asyncio.gather(batcher.submit(rows(1), 1), batcher.submit(rows(2, width=width), 1))
                assert model.calls == [[1.0], [2.0]]

    run(scenario)


def test_a_request_that_fails_does_not_fail_its_neighbours():
    async def scenario():
        model = GatedModel()
        model.allow(100)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(rows(value), 1) for value in (1, -2, 3)]
            good, bad, other = await asyncio.gather(*futures, return_exceptions=True)
            assert (good[0].item(), other[0].item()) == (2.0, 6.0)
            assert (type(bad), bad.status) == (RequestError, 500)
            assert "RuntimeError: negative" in str(bad)
            assert batcher.numbers.request_failure[metrics.BACKEND] == 1
            assert batcher.numbers.inference_count == 2

    run(scenario)


@pytest.mark.parametrize(("configured", "limit"), [(None, 8), (2, 2)])
def test_full_queue_refuses(configured, limit):
    async def scenario():
        model = GatedModel(max_queue_size=configured)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(rows(0), 1)]
            await model.wait_until_busy()
            futures += [batcher.submit(rows(1), 1) for _ in range(limit)]
            assert batcher.numbers.pending_requests() == limit
            with pytest.raises(RequestError, match=f"limit: {limit}") as refused:
                batcher.submit(rows(1), 1)
            assert (refused.value.status, refused.value.retry_after_seconds) == (429, 1)
            assert batcher.numbers.request_failure[metrics.REJECTED] == 1
            model.allow(100)
            await asyncio.gather(*futures)
            assert batcher.numbers.pending_requests() == 0

    run(scenario)


def test_requests_nobody_waits_for_are_not_run():
    async def scenario():
        model = GatedModel()
        async with batcher_of(model) as batcher:
            first = batcher.submit(rows(1), 1)
            await model.wait_until_busy()
            left = batcher.submit(rows(2), 1)
            kept = batcher.submit(rows(3), 1)
            left.cancel()
            first.cancel()
            model.allow(100)
            await kept
            assert model.calls == [[1.0], [3.0]]

    run(scenario)


def test_instances_run_at_the_same_time():
    async def scenario():
        model = GatedModel(instances=2, batches_requests=False)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(rows(value), 1) for value in (1, 2, 3)]
            await model.wait_until_busy()
            await model.wait_until_busy()
            assert batcher.numbers.pending_requests() == 1
            model.allow(100)
            await asyncio.gather(*futures)

    run(scenario)


def test_retired_batcher_finishes_its_queue_first():
    async def scenario():
        model = GatedModel(batches_requests=False)
        numbers = metrics.VersionMetrics(model="digits", version=1)
        batcher = Batcher(model, numbers, default_queue_size=8)
        futures = [batcher.submit(rows(value), 1) for value in (1, 2, 3)]
        drained = asyncio.Event()
        batcher.retire(drained.set)
        assert not drained.is_set()
        model.allow(3)
        assert [array.item() for (array,) in await asyncio.gather(*futures)] == [2.0, 4.0, 6.0]
        await asyncio.wait_for(drained.wait(), 60)

    run(scenario)
