"""The activator's two ports as ASGI applications: requests of proxies, and /metrics."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST

from trainer.activator.services import NotStartedError, UnknownServiceError

if TYPE_CHECKING:
    from trainer.activator.metrics import ActivatorMetrics
    from trainer.activator.services import Services

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOLD = "/hold/"
_RETRY_SECONDS = b"5"


def hold_app(services: Services) -> App:
    """Return the application that answers proxies: 200 to forward the request; other answers go to the client."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(_HOLD):
            await _hold(services, path.removeprefix(_HOLD), send)
        elif path == "/live" or (path == "/ready" and services.is_ready):
            await _answer(send, 200)
        else:
            await _answer(send, 503 if path == "/ready" else 404, "nothing here")

    return app


async def _hold(services: Services, name: str, send: Send) -> None:
    try:
        await services.hold(name)
    except UnknownServiceError as error:
        await _answer(send, 404, str(error))
    except NotStartedError as error:
        await _answer(send, 503, f"{name}: {error}. Fix: retry", (b"retry-after", _RETRY_SECONDS))
    else:
        await _answer(send, 200)


def metrics_app(metrics: ActivatorMetrics) -> App:
    """Return the application that answers scrapes."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/metrics":
            await _send(send, 200, [(b"content-type", CONTENT_TYPE_LATEST.encode())], metrics.render())
        else:
            await _answer(send, 404, "no such route. Fix: GET /metrics")

    return app


async def _answer(send: Send, status: int, error: str = "", *headers: tuple[bytes, bytes]) -> None:
    """Send nothing, or an error in the form of the Open Inference Protocol, whose clients get it."""
    if not error:
        await _send(send, status, [*headers], b"")
        return
    body = json.dumps({"error": error}).encode()
    await _send(send, status, [(b"content-type", b"application/json"), *headers], body)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
