"""The ASGI application: request bodies in, routes, responses out; nothing a client sends gets further than here."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from trainer.serve.errors import BodyNotReadError, ClientDisconnectedError, RequestError
from trainer.serve.http import BodyReader, Call, Response, error_response, send_response, send_response_early

if TYPE_CHECKING:
    from trainer.serve.buffers import BufferBudget
    from trainer.serve.config import LimitsConfig
    from trainer.serve.http import Receive, Scope, Send
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.routes import Routes

logger = logging.getLogger(__name__)


class InferenceApp:
    """Answers requests; safe to call for any number of them at once."""

    def __init__(
        self, routes: Routes, server_metrics: ServerMetrics, limits: LimitsConfig, buffers: BufferBudget
    ) -> None:
        self._routes = routes
        self._metrics = server_metrics
        self._limits = limits
        self._bodies = BodyReader(limits, buffers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        try:
            response = await self._answer(scope, receive)
        except ClientDisconnectedError:
            # nobody hears it; for a pipelined request, uvicorn would log the lack of an answer as an error
            await send_response(send, error_response(RequestError(499, "the client left")), close=True)
            return
        except asyncio.CancelledError:
            # uvicorn cancels what is not answered when the time to drain is over
            response = error_response(RequestError(503, "the server stopped before the model answered. Fix: retry"))
        except BodyNotReadError as error:
            self._metrics.responses[error.status] += 1
            await send_response_early(scope, receive, send, error_response(error), self._limits)
            return
        self._metrics.responses[response.status] += 1
        await send_response(send, response, close=self._routes.draining)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        began = time.perf_counter()
        body = await self._bodies.read(scope, receive)
        try:
            return await self._routes.answer(Call(scope=scope, body=body, began=began))
        except RequestError as error:
            return error_response(error)
        except ClientDisconnectedError:
            raise
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            return error_response(RequestError(500, "internal error; the server's log has the details"))
        finally:
            self._bodies.release(len(body))
