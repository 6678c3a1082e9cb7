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
    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.request_log import RequestRecord

_Answer = TypeVar("_Answer")


async def infer(
    batcher: Batcher,
    record: RequestRecord,
    decode: Callable[[ModelSpec], InferRequest],
    encode: Callable[[InferRequest, ModelSpec, int, list[Array]], _Answer],
) -> _Answer:
    """Answer a request, and note in its record what it is.

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
    return answer


def _microseconds(since: float) -> int:
    return round((time.perf_counter() - since) * 1e6)
