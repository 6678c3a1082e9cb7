"""The ASGI application: request bodies in, routes, responses out. No error from a client's input gets past it."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainer.serve.errors import BodyNotReadError, ClientDisconnectedError, RequestError, unavailable
from trainer.serve.http import (
    BodyReader,
    Call,
    Response,
    error_response,
    header,
    header_values,
    send_response,
    send_response_early,
)
from trainer.serve.request_log import RequestRecord, printable, valid_header_id
from trainer.serve.routes import inference_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.serve.buffers import BufferBudget
    from trainer.serve.config import LimitsConfig
    from trainer.serve.http import Receive, Scope, Send
    from trainer.serve.inference import RunningRequest
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.request_log import Observer
    from trainer.serve.routes import InferenceTarget, Routes

    Respond = Callable[[Response, bool], None]
    """Takes a response, and whether its connection is to end."""

logger = logging.getLogger(__name__)

_MAX_PATH_CHARACTERS = 200


class InferenceApp:
    """Answers requests; safe to call for any number of them at once."""

    def __init__(
        self,
        routes: Routes,
        server_metrics: ServerMetrics,
        limits: LimitsConfig,
        buffers: BufferBudget,
        observer: Observer,
    ) -> None:
        self._routes = routes
        self._metrics = server_metrics
        self._limits = limits
        self._observer = observer
        self._bodies = BodyReader(limits, buffers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        record = _record(scope)
        try:
            response = await self._answer(scope, receive, record)
        except ClientDisconnectedError as error:
            # nobody hears it; for a pipelined request, uvicorn would log the lack of an answer as an error
            await send_response(send, self._failed(scope, record, error), close=True)
            return
        except BodyNotReadError as error:
            response = self._failed(scope, record, error)
            self._metrics.responses[error.status] += 1
            await send_response_early(scope, receive, send, response, self._limits)
            return
        self._metrics.responses[response.status] += 1
        await send_response(send, response, close=self._routes.draining)

    def begin(self, scope: Scope, body: bytes, target: InferenceTarget, respond: Respond) -> asyncio.Future[Any] | None:
        """Answer an inference request whose body is there, without ASGI.

        Returns:
            What `respond` follows when it is done, with 503 if it is cancelled; None if the request was refused and
            `respond` has been called.
        """
        call = Call(scope=scope, body=body, record=_record(scope))
        try:
            running = self._routes.begin_inference(call, target)
        except Exception as error:  # noqa: BLE001  whatever fails, the client gets a response
            self._respond(self._failed(scope, call.record, error), respond)
            return None
        call.client.expect(running.future)
        running.future.add_done_callback(functools.partial(self._end, call, running, respond))
        return running.future

    def _end(self, call: Call, running: RunningRequest, respond: Respond, outputs: asyncio.Future[list[Array]]) -> None:
        call.client.served()
        try:
            with running:
                results = outputs.result()
            response = self._succeeded(call.scope, call.record, inference_response(running, results))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  as above
            response = self._failed(call.scope, call.record, ClientDisconnectedError() if call.client.gone else error)
        if not call.client.gone:
            self._respond(response, respond)

    def _respond(self, response: Response, respond: Respond) -> None:
        self._metrics.responses[response.status] += 1
        respond(response, self._routes.draining)

    async def _answer(self, scope: Scope, receive: Receive, record: RequestRecord) -> Response:
        try:
            response = await self._call_route(scope, receive, record)
        except (BodyNotReadError, ClientDisconnectedError):
            raise
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  as above
            return self._failed(scope, record, error)
        return self._succeeded(scope, record, response)

    async def _call_route(self, scope: Scope, receive: Receive, record: RequestRecord) -> Response:
        body = await self._bodies.read(scope, receive)
        try:
            return await self._routes.answer(Call(scope=scope, body=body, record=record))
        finally:
            self._bodies.release(len(body))

    def _succeeded(self, scope: Scope, record: RequestRecord, response: Response) -> Response:
        self._log_ended(scope, record, response.status)
        return _with_request_id(scope, response)

    def _failed(self, scope: Scope, record: RequestRecord, error: BaseException) -> Response:
        refusal = _refusal(scope, error)
        self._log_ended(scope, record, refusal.status, str(refusal))
        return _with_request_id(scope, error_response(refusal))

    def _log_ended(self, scope: Scope, record: RequestRecord, status: int, reason: str | None = None) -> None:
        # the others are mostly probes, which fail for as long as there is no model
        if scope["path"].endswith("/infer"):
            self._observer.ended(record, status, reason)


def _record(scope: Scope) -> RequestRecord:
    return RequestRecord(protocol="http", headers=functools.partial(header_values, scope), began=time.perf_counter())


def _refusal(scope: Scope, error: BaseException) -> RequestError:
    """Return the error for a client; an internal one is logged."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ClientDisconnectedError):
        return RequestError(499, "the client left")
    if isinstance(error, asyncio.CancelledError):
        # uvicorn cancels what is not answered when the time to drain is over
        return unavailable("the server stopped before the model answered. Fix: retry")
    logger.error("%s %s failed", scope["method"], printable(scope["path"], _MAX_PATH_CHARACTERS), exc_info=error)
    return RequestError(500, "internal error; the server's log has the details")


def _with_request_id(scope: Scope, response: Response) -> Response:
    """Send the id of the header back, so that proxies and clients can match answers."""
    if header(scope, b"x-request-id") is None:
        return response
    value = valid_header_id(header_values(scope, "x-request-id"))
    if value is None:
        return response
    return replace(response, headers=[*response.headers, (b"x-request-id", value.encode())])
