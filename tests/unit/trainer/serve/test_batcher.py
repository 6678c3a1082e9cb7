"""What a model runs together, and when."""

import asyncio
import time

from tests.unit.trainer.serve.gated_model import GatedModel, batcher_of, request, rows, run
from tests.waiting import wait_until
from trainer.serve import metrics
from trainer.serve.batcher import Batcher
from trainer.serve.request_queue import RequestQueue, Waiting


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
