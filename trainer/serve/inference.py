"""One inference request in any encoding: decode, queue, run, encode, count."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trainer.serve import metrics
from trainer.serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.serve.batcher import Batcher
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.models import Models
    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.request_log import RequestRecord
    from trainer.serve.shadow import Shadow

_Answer = TypeVar("_Answer")


class Inference:
    """Finds the version for a request and runs it; every method belongs to the event loop's thread."""

    def __init__(self, models: Models, shadow: Shadow | None) -> None:
        """Answer by the versions of these models; a shadow gets a share of what was answered."""
        self._models = models
        self._shadow = shadow

    def begin(
        self, model: str, version: str | None, record: RequestRecord, decode: Callable[[ModelSpec], InferRequest]
    ) -> RunningRequest:
        """Queue a request for a version, the latest without one, and note in its record what it is.

        Raises:
            RequestError: the version does not exist, the request does not fit, or the queue is full.
        """
        # no coroutine: a batcher that is retired between finding it and its `submit` would take no request
        batcher = self._models.find(model, version)
        numbers, spec = batcher.numbers, batcher.model.spec
        record.model, record.version = spec.name, batcher.model.version
        decoding = time.perf_counter()
        try:
            try:
                request = decode(spec)
            except RequestError as error:
                numbers.request_failure[metrics.OTHER] += 1
                record.body_id = error.request_id or record.body_id
                raise
            record.decoded = time.perf_counter()
            record.body_id = request.id
            future = batcher.submit(request, record)
        except RequestError:
            numbers.failure_duration_us += _microseconds(record.began)
            raise
        decoding_us = round((record.decoded - decoding) * 1e6)
        return RunningRequest(future, batcher, request, record, decoding_us, self._shadow)

    async def infer(
        self,
        model: str,
        version: str | None,
        record: RequestRecord,
        decode: Callable[[ModelSpec], InferRequest],
        encode: Callable[[InferRequest, ModelSpec, int, list[Array]], _Answer],
    ) -> _Answer:
        """Answer a request.

        Raises:
            RequestError: as `begin`, or the model failed.
        """
        running = self.begin(model, version, record, decode)
        with running:
            results = await running.future
        return running.answer(results, encode)


@dataclass(slots=True, eq=False)
class RunningRequest:
    """A request that the model's queue has; a `with` block that waits for its outcome counts its failure."""

    future: asyncio.Future[list[Array]]
    """Gives the model's outputs; raises a RequestError where it waited for too long or the model failed."""
    _batcher: Batcher
    _request: InferRequest
    _record: RequestRecord
    _decoding_us: int
    _shadow: Shadow | None

    def __enter__(self) -> None:
        """Begin to wait."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Count the failure, if the wait ended with one."""
        numbers = self._batcher.numbers
        if isinstance(error, asyncio.CancelledError):
            numbers.request_failure[metrics.CANCELED] += 1
        if isinstance(error, (asyncio.CancelledError, RequestError)):
            numbers.failure_duration_us += _microseconds(self._record.began)

    def answer(
        self, results: list[Array], encode: Callable[[InferRequest, ModelSpec, int, list[Array]], _Answer]
    ) -> _Answer:
        """Return the answer with these outputs, and count it."""
        record, model, numbers = self._record, self._batcher.model, self._batcher.numbers
        encoding = time.perf_counter()
        answer = encode(self._request, model.spec, model.version, results)
        record.encoded = time.perf_counter()
        encoding_us = round((record.encoded - encoding) * 1e6)
        numbers.compute_input_duration_us += self._decoding_us
        numbers.compute_output_duration_us += encoding_us
        size = numbers.batches[record.batch_rows]
        size.input_us += self._decoding_us
        size.output_us += encoding_us
        numbers.succeed(record.encoded - record.began)
        if self._shadow is not None:
            self._shadow.answered(self._request, record, model.spec, results)
        return answer


def _microseconds(since: float) -> int:
    return round((time.perf_counter() - since) * 1e6)
