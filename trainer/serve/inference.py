"""One inference request, from body to response."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from trainer.serve import metrics
from trainer.serve.errors import RequestError
from trainer.serve.http import Response, header
from trainer.serve.protocol import request as protocol_request
from trainer.serve.protocol import response as protocol_response

if TYPE_CHECKING:
    from trainer.serve.batcher import Batcher
    from trainer.serve.http import Call
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.request import InferRequest


async def infer(batcher: Batcher, call: Call, max_json_bytes: int) -> Response:
    """Decode, queue, run and encode.

    Nothing may be awaited between finding the batcher and its `submit`: a retired batcher takes no requests.

    Raises:
        RequestError: the request does not fit, the queue is full, or the model failed.
    """
    spec = batcher.model.spec
    try:
        request = _decode(call, spec, max_json_bytes)
    except RequestError:
        batcher.numbers.request_failure[metrics.OTHER] += 1
        raise
    outputs = batcher.submit(request.inputs, request.rows)
    try:
        results = await outputs
    except asyncio.CancelledError:
        batcher.numbers.request_failure[metrics.CANCELED] += 1
        raise
    headers, body = protocol_response.encode(request, spec, batcher.model.version, results)
    batcher.numbers.request_success += 1
    seconds = time.perf_counter() - call.began
    batcher.numbers.request_duration_us += round(seconds * 1e6)
    batcher.numbers.request_seconds.observe(seconds)
    return Response(headers=headers, body=body)


def _decode(call: Call, spec: ModelSpec, max_json_bytes: int) -> InferRequest:
    encoding = header(call.scope, b"content-encoding") or b"identity"
    if encoding != b"identity":
        shown = encoding[:40].decode("latin-1")
        raise RequestError(415, f"Content-Encoding {shown!r} is not supported. Fix: send the body uncompressed")
    header_length = header(call.scope, b"inference-header-content-length")
    return protocol_request.decode(call.body, header_length, spec, max_json_bytes)
