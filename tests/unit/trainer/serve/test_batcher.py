"""The queue in front of a model, with a model that runs when the test says so."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from tests.waiting import wait_until
from trainer.serve import metrics
from trainer.serve.batcher import Batcher
from trainer.serve.batching_config import Batching, QueuePolicy
from trainer.serve.errors import RequestError, WorkerDiedError, unavailable
from trainer.serve.protocol.infer_request import InferRequest
from trainer.serve.request_queue import RequestQueue, Waiting


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


def test_what_waits_is_run_together_up_to_the_limit():
    async def scenario():
        model = GatedModel()
        async with batcher_of(model) as batcher:
            first = batcher.submit(request(1))
            await model.wait_until_busy()
            others = [batcher.submit(request(value)) for value in (2, 3, 4, 5, 6)]
            large = batcher.submit(request(7, 8, 9, 10))
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


def test_a_batch_runs_from_when_it_is_taken_until_the_model_is_done_with_it():
    """Neither a thread that starts nor one that was woken has a batch yet."""

    async def scenario():
        queue = RequestQueue(GatedModel().spec.batching, 8, asyncio.get_running_loop(), lambda *_: None)
        queue.add(Waiting(rows(1), 1, ((1,),), asyncio.get_running_loop().create_future(), time.perf_counter()))
        assert queue.running == 0
        assert len(queue.get()) == 1
        assert queue.running == 1
        queue.done()
        queue.end()
        assert queue.get() == []
        assert queue.running == 0

    run(scenario)


def test_the_model_continues_while_the_loop_reads_other_requests():
    async def scenario():
        model = GatedModel()
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(1))]
            await model.wait_until_busy()
            futures += [batcher.submit(request(value)) for value in (2, 3)]
            model.allow(2)
            # not awaited: this is the loop's thread, which does nothing else
            wait_until(lambda: model.calls == [[1.0], [2.0, 3.0]], lambda: str(model.calls), look_seconds=0.001)
            await asyncio.gather(*futures)

    run(scenario)


def test_other_shapes_and_models_without_batching_run_alone():
    async def scenario():
        for model in (GatedModel(), GatedModel(batches_requests=False)):
            model.allow(100)
            async with batcher_of(model) as batcher:
                width = 2 if model.spec.batching.max_rows else 1
                await asyncio.gather(batcher.submit(request(1)), batcher.submit(request(2, width=width)))
                assert model.calls == [[1.0], [2.0]]

    run(scenario)


def test_a_request_that_fails_does_not_fail_its_neighbours():
    async def scenario():
        model = GatedModel()
        async with batcher_of(model) as batcher:
            futures = await waiting_together(batcher, model, 1, -2, 3)
            good, bad, other = await asyncio.gather(*futures, return_exceptions=True)
            assert (good[0].item(), other[0].item()) == (2.0, 6.0)
            assert (type(bad), bad.status) == (RequestError, 500)
            assert "RuntimeError: negative" in str(bad)
            assert batcher.numbers.request_failure[metrics.BACKEND] == 1
            assert batcher.numbers.inference_count == 3

    run(scenario)


def test_times_in_the_queue_and_the_model_are_those_of_requests_that_succeed():
    async def scenario():
        model = GatedModel()
        model.allow(100)
        async with batcher_of(model) as batcher:
            with pytest.raises(RequestError):
                await batcher.submit(request(-2))
            numbers = batcher.numbers
            assert (numbers.execution_count, numbers.batches[1].calls) == (1, 1)
            assert (numbers.queue_duration_us, numbers.compute_infer_duration_us) == (0, 0)
            await batcher.submit(request(2))
            assert numbers.queue_duration_us > 0
            assert numbers.compute_infer_duration_us > 0

    run(scenario)


class MortalModel(GatedModel):
    """Negative values end its process."""

    def infer(self, inputs):
        try:
            return super().infer(inputs)
        except RuntimeError as error:
            raise WorkerDiedError("its process was killed by signal 9") from error


def test_a_request_that_ends_the_process_twice_is_refused_and_its_neighbours_are_answered():
    async def scenario():
        model = MortalModel()
        async with batcher_of(model) as batcher:
            futures = await waiting_together(batcher, model, 1, -2, 3)
            good, bad, other = await asyncio.gather(*futures, return_exceptions=True)
            assert (good[0].item(), other[0].item()) == (2.0, 6.0)
            # a proxy that asked another server would end that one's process, too
            assert (bad.status, bad.retry_after_seconds, bad.retry_elsewhere) == (500, None, False)
            assert "died 2 times with this request: its process was killed by signal 9" in str(bad)
            assert model.calls[1:] == [[1.0, -2.0, 3.0], [1.0], [-2.0], [3.0]]

    run(scenario)


class AbsentModel(GatedModel):
    """Has no process."""

    def infer(self, inputs):
        super().infer(inputs)
        raise unavailable("model 'digits' is not ready")


def test_requests_of_a_model_that_is_away_are_refused_without_another_attempt():
    async def scenario():
        model = AbsentModel()
        async with batcher_of(model) as batcher:
            futures = await waiting_together(batcher, model, 1, 2)
            refused = await asyncio.gather(*futures, return_exceptions=True)
            assert [(each.status, each.retry_after_seconds) for each in refused] == [(503, 1)] * 2
            assert all(each.retry_elsewhere for each in refused)
            assert refused[0] is not refused[1]
            assert model.calls[1:] == [[1.0, 2.0]]

    run(scenario)


class LostModel(GatedModel):
    """Its process dies in a batch, and no other one starts."""

    def infer(self, inputs):
        super().infer(inputs)
        if len(inputs[0]) > 1:
            raise WorkerDiedError("its process was killed by signal 9")
        raise unavailable("model 'digits' is not ready")


def test_requests_that_a_process_died_with_are_not_for_other_servers():
    async def scenario():
        model = LostModel()
        async with batcher_of(model) as batcher:
            futures = await waiting_together(batcher, model, 1, 2)
            refused = await asyncio.gather(*futures, return_exceptions=True)
            assert [(each.status, each.retry_elsewhere) for each in refused] == [(503, False)] * 2

    run(scenario)


@pytest.mark.parametrize(("configured", "limit"), [(None, 8), (2, 2)])
def test_full_queue_refuses(configured, limit):
    async def scenario():
        model = GatedModel(max_queue_size=configured)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(0))]
            await model.wait_until_busy()
            futures += [batcher.submit(request(1)) for _ in range(limit)]
            assert batcher.numbers.pending_requests() == limit
            with pytest.raises(RequestError, match=f"limit: {limit}") as refused:
                batcher.submit(request(1))
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
            first = batcher.submit(request(1))
            await model.wait_until_busy()
            left = batcher.submit(request(2))
            kept = batcher.submit(request(3))
            left.cancel()
            first.cancel()
            model.allow(100)
            await kept
            assert model.calls == [[1.0], [3.0]]

    run(scenario)


@pytest.mark.parametrize(("configured", "limit"), [(None, 8), (2, 2)])
def test_cancelled_requests_leave_room_in_the_queue(configured, limit):
    async def scenario():
        model = GatedModel(max_queue_size=configured)
        async with batcher_of(model) as batcher:
            first = batcher.submit(request(1))
            await model.wait_until_busy()
            left = [batcher.submit(request(2)) for _ in range(limit)]
            left[0].cancel()
            assert batcher.numbers.pending_requests() == limit - 1
            kept = batcher.submit(request(3))
            with pytest.raises(RequestError, match=f"limit: {limit}"):
                batcher.submit(request(4))
            model.allow(100)
            await asyncio.gather(first, kept, *left[1:])
            assert 3.0 in [value for call in model.calls for value in call]

    run(scenario)


def test_instances_run_at_the_same_time():
    async def scenario():
        model = GatedModel(instances=2, batches_requests=False)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(value)) for value in (1, 2, 3)]
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
        futures = [batcher.submit(request(value)) for value in (1, 2, 3)]
        drained = asyncio.Event()
        batcher.retire(drained.set)
        assert not drained.is_set()
        model.allow(3)
        assert [array.item() for (array,) in await asyncio.gather(*futures)] == [2.0, 4.0, 6.0]
        await asyncio.wait_for(drained.wait(), 60)

    run(scenario)


def test_higher_priorities_run_first_and_unknown_ones_are_the_default():
    async def scenario():
        model = GatedModel(batches_requests=False, policies=(QueuePolicy(),) * 3, default_priority=2)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(0))]
            await model.wait_until_busy()
            asked = {1: 3, 2: 0, 3: 9, 4: 1, 5: 2}
            futures += [batcher.submit(request(value, priority=priority)) for value, priority in asked.items()]
            model.allow(100)
            await asyncio.gather(*futures)
            assert model.calls == [[0.0], [4.0], [2.0], [3.0], [5.0], [1.0]]

    run(scenario)


def test_a_policy_limits_its_priority_alone():
    async def scenario():
        model = GatedModel(batches_requests=False, policies=(QueuePolicy(max_queue_size=1), QueuePolicy()))
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(0))]
            await model.wait_until_busy()
            futures += [batcher.submit(request(1, priority=priority)) for priority in (1, 2, 2)]
            with pytest.raises(RequestError, match="limit: 1"):
                batcher.submit(request(1, priority=1))
            assert batcher.numbers.rejected == Counter({("queue_full", 1): 1})
            futures.append(batcher.submit(request(1, priority=2)))
            model.allow(100)
            await asyncio.gather(*futures)

    run(scenario)


def test_a_request_that_waited_too_long_is_rejected_and_counted():
    async def scenario():
        model = GatedModel(policies=(QueuePolicy(timeout_us=1000),))
        async with batcher_of(model) as batcher:
            first = batcher.submit(request(1))
            await model.wait_until_busy()
            with pytest.raises(RequestError, match="longer than 1000 microseconds") as refused:
                await batcher.submit(request(2))
            # its time is over: another server's queue would take as long again
            assert (refused.value.status, refused.value.retry_elsewhere) == (503, False)
            assert batcher.numbers.request_failure[metrics.REJECTED] == 1
            assert batcher.numbers.rejected == {("timeout", 1): 1, ("queue_full", 1): 0}
            assert batcher.numbers.pending_requests() == 0
            model.allow(100)
            await first
            assert model.calls == [[1.0]]

    run(scenario)


def test_a_request_that_waited_too_long_runs_last_where_the_policy_delays():
    async def scenario():
        policy = QueuePolicy(allow_timeout_override=True, delays_on_timeout=True)
        model = GatedModel(batches_requests=False, policies=(policy,))
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(1))]
            await model.wait_until_busy()
            futures += [batcher.submit(request(2, timeout_us=1)), batcher.submit(request(3))]
            level = batcher._queue._levels[0]
            await asyncio.to_thread(wait_until, lambda: level.late, "a late request", look_seconds=0.001)
            model.allow(100)
            await asyncio.gather(*futures)
            assert model.calls == [[1.0], [3.0], [2.0]]

    run(scenario)


@pytest.mark.parametrize(
    ("policy", "asked", "microseconds"),
    [
        (QueuePolicy(), 5, 0),
        (QueuePolicy(timeout_us=9), 5, 9),
        (QueuePolicy(allow_timeout_override=True), 5, 5),
        (QueuePolicy(allow_timeout_override=True, timeout_us=9), 5, 5),
        (QueuePolicy(allow_timeout_override=True, timeout_us=9), 50, 9),
        (QueuePolicy(allow_timeout_override=True, timeout_us=9), 0, 9),
    ],
)
def test_a_request_may_only_shorten_its_wait(policy, asked, microseconds):
    assert policy.wait_us(asked) == microseconds


def test_requests_wait_for_others_until_the_batch_is_full():
    async def scenario():
        model = GatedModel(max_delay_seconds=1000.0)
        model.allow(100)
        async with batcher_of(model) as batcher:
            early = [batcher.submit(request(value)) for value in (1, 2)]
            await asyncio.sleep(0.01)
            assert model.calls == []
            await asyncio.gather(*early, batcher.submit(request(3, 4)))
            assert model.calls == [[1.0, 2.0, 3.0, 4.0]]

    run(scenario)


def test_requests_wait_for_others_no_longer_than_the_delay():
    async def scenario():
        model = GatedModel(max_delay_seconds=0.01)
        model.allow(100)
        async with batcher_of(model) as batcher:
            await batcher.submit(request(1))
            assert model.calls == [[1.0]]

    run(scenario)


def test_a_batch_of_a_preferred_size_starts_at_once():
    async def scenario():
        model = GatedModel(max_batch_size=8, max_delay_seconds=1000.0, preferred_sizes=frozenset({2, 3}))
        model.allow(100)
        async with batcher_of(model) as batcher:
            futures = [batcher.submit(request(value)) for value in (1, 2, 3, 4, 5, 6)]
            await asyncio.gather(*futures)
            assert model.calls == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

    run(scenario)
