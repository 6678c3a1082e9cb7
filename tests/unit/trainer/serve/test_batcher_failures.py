"""What a request that fails, or ends the process of the model, does to those that were batched with it."""

import asyncio

import pytest

from tests.unit.trainer.serve.gated_model import GatedModel, batcher_of, request, run, waiting_together
from trainer.serve import metrics
from trainer.serve.errors import RequestError, WorkerDiedError, unavailable


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
            # each request in one call of its own size: the call of all of them gave no answer
            sizes = {rows: size.calls for rows, size in batcher.numbers.batches.items()}
            assert (batcher.numbers.execution_count, sizes) == (4, {1: 4})

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
