"""One inference request, whichever way it was encoded: decode, queue, run, encode, count."""

from __future__ import annotations

import asyncio
import time
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

    async def infer(
        self,
        model: str,
        version: str | None,
        record: RequestRecord,
        decode: Callable[[ModelSpec], InferRequest],
        encode: Callable[[InferRequest, ModelSpec, int, list[Array]], _Answer],
    ) -> _Answer:
        """Answer a request for a version, the latest without one, and note in its record what it is.

        Raises:
            RequestError: the version does not exist, the request does not fit, the queue is full, or the model failed.
        """
        return await _infer(self._models.find(model, version), record, decode, encode, self._shadow)


async def _infer(
    batcher: Batcher,
    record: RequestRecord,
    decode: Callable[[ModelSpec], InferRequest],
    encode: Callable[[InferRequest, ModelSpec, int, list[Array]], _Answer],
    shadow: Shadow | None,
) -> _Answer:
    """Answer a request.

    Nothing may be awaited between finding the batcher and its `submit`: a retired batcher takes no requests.

    Raises:
        RequestError: the request does not fit, the queue is full, or the model failed.
    """
    numbers, spec, began = batcher.numbers, batcher.model.spec, record.began
    record.model, record.version = spec.name, batcher.model.version
    decoding = time.perf_counter()
    try:
        try:
            request = decode(spec)
        except RequestError as error:
            numbers.request_failure[metrics.OTHER] += 1
            record.body_id = error.request_id or record.body_id
            raise
        record.decoded = decoded = time.perf_counter()
        record.body_id = request.id
        results = await batcher.submit(request, record)
    except asyncio.CancelledError:
        numbers.request_failure[metrics.CANCELED] += 1
        numbers.failure_duration_us += _microseconds(began)
        raise
    except RequestError:
        numbers.failure_duration_us += _microseconds(began)
        raise
    encoding = time.perf_counter()
    answer = encode(request, spec, batcher.model.version, results)
    record.encoded = time.perf_counter()
    numbers.compute_input_duration_us += round((decoded - decoding) * 1e6)
    numbers.compute_output_duration_us += _microseconds(encoding)
    numbers.succeed(time.perf_counter() - began)
    if shadow is not None:
        shadow.answered(request, record, spec, results)
    return answer


def _microseconds(since: float) -> int:
    return round((time.perf_counter() - since) * 1e6)
