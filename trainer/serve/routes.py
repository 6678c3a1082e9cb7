"""The routes of the Open Inference Protocol v2, and of Triton's extensions of it.

Sources: Open Inference Protocol v2 (REST); Triton, "Model Repository", "Model Configuration" and "Statistics"
extensions.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from trainer.serve.errors import ClientDisconnectedError, RequestError
from trainer.serve.http import Call, Response, header, json_response
from trainer.serve.management import LOG_REFUSAL, TRACE_REFUSAL
from trainer.serve.protocol import request as protocol_request
from trainer.serve.protocol import response as protocol_response
from trainer.serve.protocol.json_messages import to_json
from trainer.serve.protocol.parameters import SHARED_MEMORY_REFUSAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trainer.serve.http import Scope
    from trainer.serve.inference import Inference, RunningRequest
    from trainer.serve.management import Management
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.protocol.tensors import Array

_MODEL = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_INFER = re.compile(rf"{_MODEL}/infer")
_REPOSITORY = "/v2/repository"
_ANY = "any method"


class InferenceTarget(NamedTuple):
    """Whom a request asks."""

    model: str
    version: str | None


def inference_target(scope: Scope) -> InferenceTarget | None:
    """Return the target of an inference request; None for other requests."""
    match = _INFER.fullmatch(scope["path"]) if scope["method"] == "POST" else None
    return match and InferenceTarget(match["model"], match["version"])


def inference_response(running: RunningRequest, results: list[Array]) -> Response:
    """Return the response with a model's outputs."""
    headers, body = running.answer(results, protocol_response.encode)
    return Response(headers=headers, body=body)


class Routes:
    """Answers by method and path."""

    def __init__(self, inference: Inference, management: Management, max_json_bytes: int) -> None:
        self._inference = inference
        self._management = management
        self._max_json_bytes = max_json_bytes
        self.last_request_time = -math.inf
        """When the last inference request came, on the monotonic clock."""
        # the most frequent first; the named groups of a path become arguments
        table: list[tuple[str, str, Callable[..., Awaitable[Response]]]] = [
            ("POST", _INFER.pattern, self._infer),
            ("GET", rf"{_MODEL}/ready", self._model_ready),
            ("GET", r"/v2/health/live", self._live),
            ("GET", r"/v2/health/ready", self._server_ready),
            ("GET", rf"{_MODEL}/stats", self._statistics),
            ("GET", r"/v2/models/stats", self._statistics),
            ("GET", rf"{_MODEL}/config", self._model_config),
            ("GET", _MODEL, self._model_metadata),
            ("GET", r"/v2/?", self._server_metadata),
            ("POST", rf"{_REPOSITORY}/index", self._index),
            ("POST", rf"{_REPOSITORY}/models/(?P<model>[^/]+)/load", self._load),
            ("POST", rf"{_REPOSITORY}/models/(?P<model>[^/]+)/unload", self._unload),
            (_ANY, r"/v2/(?:system|cuda)sharedmemory/.*", functools.partial(_refuse, SHARED_MEMORY_REFUSAL)),
            (_ANY, r"/v2/(?:models/[^/]+/)?trace/setting", functools.partial(_refuse, TRACE_REFUSAL)),
            (_ANY, r"/v2/logging", functools.partial(_refuse, LOG_REFUSAL)),
        ]
        self._table = [(method, re.compile(path), handler) for method, path, handler in table]

    @property
    def draining(self) -> bool:
        """The server is about to stop: each connection ends with its next response."""
        return self._management.draining

    async def answer(self, call: Call) -> Response:
        """Return the response to a request.

        Raises:
            RequestError: 404 and 405 for what no route takes; others as the route says.
        """
        path, method = call.scope["path"], call.scope["method"]
        for route_method, pattern, handler in self._table:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if route_method not in (method, _ANY):
                message = f"{method} {path[:200]}: not allowed. Fix: use {route_method}"
                raise RequestError(405, message, allowed_method=route_method)
            return await handler(call, **match.groupdict())
        raise RequestError(404, f"{path[:200]}: no such route. Fix: see the Open Inference Protocol v2")

    def begin_inference(self, call: Call, target: InferenceTarget) -> RunningRequest:
        """Queue an inference request.

        Raises:
            RequestError: it cannot be queued.
        """
        self.last_request_time = time.monotonic()
        decode = functools.partial(_decode, call, self._max_json_bytes)
        return self._inference.begin(target.model, target.version, call.record, decode)

    async def _infer(self, call: Call, model: str, version: str | None) -> Response:
        running = self.begin_inference(call, InferenceTarget(model, version))
        call.client.expect(running.future)
        try:
            with running:
                results = await running.future
        except asyncio.CancelledError:
            if call.client.gone:
                raise ClientDisconnectedError from None
            raise
        finally:
            call.client.served()
        return inference_response(running, results)

    async def _live(self, _call: Call) -> Response:
        return json_response({"live": True})

    async def _server_ready(self, _call: Call) -> Response:
        self._management.check_ready()
        return json_response({"ready": True})

    async def _model_ready(self, _call: Call, model: str, version: str | None) -> Response:
        answering = self._management.check_ready(model, version)
        return json_response({"name": model, "version": str(answering), "ready": True})

    async def _server_metadata(self, _call: Call) -> Response:
        return json_response(to_json(self._management.server_metadata()))

    async def _model_metadata(self, _call: Call, model: str, version: str | None) -> Response:
        return json_response(to_json(self._management.model_metadata(model, version)))

    async def _model_config(self, _call: Call, model: str, version: str | None) -> Response:
        return json_response(to_json(self._management.model_config(model, version)))

    async def _statistics(self, _call: Call, model: str | None = None, version: str | None = None) -> Response:
        return json_response(to_json(self._management.statistics(model, version)))

    async def _index(self, call: Call) -> Response:
        ready_only = _document(call).get("ready") is True
        return json_response(to_json(self._management.index(ready_only=ready_only))["models"])

    async def _load(self, call: Call, model: str) -> Response:
        parameters = _document(call).get("parameters")
        names = cast("dict[str, object]", parameters) if isinstance(parameters, dict) else ()
        await self._management.load(model, names)
        return json_response({})

    async def _unload(self, _call: Call, model: str) -> Response:
        await self._management.unload(model)
        return json_response({})


async def _refuse(what: str, _call: Call) -> Response:
    raise RequestError(501, what)


def _decode(call: Call, max_json_bytes: int, spec: ModelSpec) -> InferRequest:
    header_length = header(call.scope, b"inference-header-content-length")
    return protocol_request.decode(call.body, header_length, spec, max_json_bytes)


def _document(call: Call) -> dict[str, Any]:
    """Return a body that may be missing."""
    try:
        body: Any = orjson.loads(call.body) if call.body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestError(400, 'body must be a JSON object such as {"ready": true}')
    return body  # pyright: ignore[reportUnknownVariableType]
