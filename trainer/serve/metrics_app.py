"""GET /metrics for Prometheus, as an ASGI application on a port of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.serve.errors import RequestError
from trainer.serve.http import Response, error_response, send_response
from trainer.serve.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from trainer.serve.http import Receive, Scope, Send
    from trainer.serve.metrics import ServerMetrics


class MetricsApp:
    """Answers scrapes."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3); a body, which no scrape has, ends the connection."""
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if scope["path"] == "/metrics" and scope["method"] == "GET":
            headers = [(b"content-type", CONTENT_TYPE.encode())]
            response = Response(headers=headers, body=self._metrics.render())
        else:
            response = error_response(RequestError(404, "no such route. Fix: GET /metrics"))
        await send_response(send, response, close=bool(message["more_body"]))
