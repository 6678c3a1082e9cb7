"""The ASGI application: request bodies in, routes, responses out; nothing a client sends gets further than here."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.serve.errors import BodyNotReadError, ClientDisconnectedError, RequestError
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

if TYPE_CHECKING:
    from trainer.serve.buffers import BufferBudget
    from trainer.serve.config import LimitsConfig
    from trainer.serve.http import Receive, Scope, Send
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.request_log import Observer
    from trainer.serve.routes import Routes

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
        record = RequestRecord(
            protocol="http", headers=functools.partial(header_values, scope), began=time.perf_counter()
        )
        try:
            response = await self._answer(scope, receive, record)
        except ClientDisconnectedError:
            # nobody hears it; for a pipelined request, uvicorn would log the lack of an answer as an error
            left = self._error_response(scope, record, RequestError(499, "the client left"))
            await send_response(send, left, close=True)
            return
        except BodyNotReadError as error:
            response = self._error_response(scope, record, error)
            self._metrics.responses[error.status] += 1
            await send_response_early(scope, receive, send, response, self._limits)
            return
        self._metrics.responses[response.status] += 1
        await send_response(send, response, close=self._routes.draining)

    async def _answer(self, scope: Scope, receive: Receive, record: RequestRecord) -> Response:
        try:
            response = await self._call_route(scope, receive, record)
        except asyncio.CancelledError:
            # uvicorn cancels what is not answered when the time to drain is over
            stopped = RequestError(503, "the server stopped before the model answered. Fix: retry")
            return self._error_response(scope, record, stopped)
        except BodyNotReadError:
            raise
        except RequestError as error:
            return self._error_response(scope, record, error)
        self._log_ended(scope, record, response.status)
        return _with_request_id(scope, response)

    async def _call_route(self, scope: Scope, receive: Receive, record: RequestRecord) -> Response:
        body = await self._bodies.read(scope, receive)
        try:
            return await self._routes.answer(Call(scope=scope, body=body, record=record))
        except (RequestError, ClientDisconnectedError):
            raise
        except Exception:
            logger.exception("%s %s failed", scope["method"], printable(scope["path"], _MAX_PATH_CHARACTERS))
            raise RequestError(500, "internal error; the server's log has the details") from None
        finally:
            self._bodies.release(len(body))

    def _error_response(self, scope: Scope, record: RequestRecord, error: RequestError) -> Response:
        self._log_ended(scope, record, error.status, str(error))
        return _with_request_id(scope, error_response(error))

    def _log_ended(self, scope: Scope, record: RequestRecord, status: int, reason: str | None = None) -> None:
        # the others are mostly probes, which fail for as long as there is no model
        if scope["path"].endswith("/infer"):
            self._observer.ended(record, status, reason)


def _with_request_id(scope: Scope, response: Response) -> Response:
    """Send the id of the header back, so that proxies and clients can match answers."""
    if header(scope, b"x-request-id") is None:
        return response
    value = valid_header_id(header_values(scope, "x-request-id"))
    if value is None:
        return response
    return replace(response, headers=[*response.headers, (b"x-request-id", value.encode())])
