"""Who waits for a model: how many, for how long, and who goes first."""

import asyncio
from collections import Counter

import pytest

from tests.tables import each_row
from tests.unit.trainer.serve.gated_model import GatedModel, batcher_of, request, run
from tests.waiting import wait_until
from trainer.serve import metrics
from trainer.serve.batching_config import QueuePolicy
from trainer.serve.errors import RequestError


@each_row(("configured", "limit"), [(None, 8), (2, 2)])
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


@each_row(("configured", "limit"), [(None, 8), (2, 2)])
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
        # only the second may wait too long: a busy machine needs a while to begin with the first
        model = GatedModel(policies=(QueuePolicy(), QueuePolicy(timeout_us=1000)))
        async with batcher_of(model) as batcher:
            first = batcher.submit(request(1, priority=1))
            await model.wait_until_busy()
            with pytest.raises(RequestError, match="longer than 1000 microseconds") as refused:
                await batcher.submit(request(2, priority=2))
            # its time is over: another server's queue would take as long again
            assert (refused.value.status, refused.value.retry_elsewhere) == (503, False)
            assert batcher.numbers.request_failure[metrics.REJECTED] == 1
            assert +batcher.numbers.rejected == {("timeout", 2): 1}
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


@each_row(
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
