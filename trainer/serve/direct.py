"""A fast path for inference requests without a task each: from the parser to the model's queue, and back.

ASGI has a task, two messages and several turns of the event loop for every request, which for a small model is a
quarter of the loop's work. Only the common case takes this path: a request whose body is announced, small, and complete
in time. All other requests go to the ASGI application.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from trainer.serve.connection import BoundedConfig, BoundedHttpProtocol
from trainer.serve.http import BODY_DUE, header
from trainer.serve.routes import InferenceTarget, inference_target

if TYPE_CHECKING:
    import asyncio
    from collections import Counter

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from trainer.serve.app import InferenceApp
    from trainer.serve.buffers import BufferBudget
    from trainer.serve.config import LimitsConfig
    from trainer.serve.http import Response, Scope
    from trainer.serve.joined_writes import JoinedWrites

_MOST_BYTES = HIGH_WATER_LIMIT
"""Most bytes of a body: beyond, uvicorn stops reading until the application asks for more."""


class DirectConfig(BoundedConfig):
    """The configuration with what answers requests directly."""

    def __init__(
        self,
        app: InferenceApp,
        limits: LimitsConfig,
        responses: Counter[int],
        buffers: BufferBudget,
        *,
        shutdown_seconds: int,
    ) -> None:
        super().__init__(app, limits, responses, shutdown_seconds=shutdown_seconds, protocol=DirectHttpProtocol)
        self.inference = app
        self.buffers = buffers


class _Held(NamedTuple):
    """A request whose body is coming."""

    cycle: RequestResponseCycle
    app: Any
    target: InferenceTarget
    size: int
    """Size of its body, taken from the budget."""


class DirectHttpProtocol(BoundedHttpProtocol):
    """A connection that answers small inference requests itself."""

    def __init__(
        self,
        config: DirectConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._inference = config.inference
        self._buffers = config.buffers
        self._held: _Held | None = None
        self._body_timer: asyncio.TimerHandle | None = None

    def on_message_complete(self) -> None:
        """Answer a request that is complete, after what came on other connections in this turn of the loop.

        So the model's thread finds all of them at once: between two connections the loop lets go of the interpreter,
        and the thread would take the first request alone. An answer in the parser's callback could also close the
        connection under the parser.
        """
        super().on_message_complete()
        if self._held is not None:
            self.loop.call_soon(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the request whose body will not arrive."""
        super().connection_lost(exc)
        self._hand_over()

    def shutdown(self) -> None:
        """Leave a request whose body may not come in time to the application, which the server waits for."""
        super().shutdown()
        self._hand_over()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401  uvicorn's type
        self._held = self._holdable(cycle, app)
        if self._held is None:
            super()._start_asgi_task(cycle, app)
            return
        _scope(cycle)["state"][BODY_DUE] = due = self.loop.time() + self._limits.body_timeout_seconds
        self._body_timer = self.loop.call_at(due, self._hand_over)

    def _holdable(self, cycle: RequestResponseCycle, app: Any) -> _Held | None:  # noqa: ANN401  as above
        """Return a request that can be answered directly, with its place in the budget; None for others."""
        target = inference_target(_scope(cycle))
        size = _declared_size(cycle)
        is_compressed = header(_scope(cycle), b"content-encoding") is not None
        is_usual = cycle.more_body and not cycle.waiting_for_100_continue and not is_compressed
        if target is None or size is None or not is_usual or self.flow.write_paused:
            return None
        self._buffers.take(size)
        if self._buffers.exceeded:
            self._buffers.release(size)
            return None
        return _Held(cycle, app, target, size)

    def _take_held(self) -> _Held:
        held, self._held = self._held, None
        assert held is not None
        assert self._body_timer is not None
        self._body_timer.cancel()
        return held

    def _hand_over(self) -> None:
        if self._held is not None:
            held = self._take_held()
            self._buffers.release(held.size)
            super()._start_asgi_task(held.cycle, held.app)

    def _answer(self) -> None:
        if self._held is None:
            # the client left, or the server stops: the application has it
            return
        held = self._take_held()
        respond = functools.partial(self._respond, held)
        body = bytes(held.cycle.body)
        held.cycle.body.clear()
        running = self._inference.begin(_scope(held.cycle), body, held.target, respond)
        if running is None:
            self._buffers.release(held.size)
            return
        # the server waits for these when it stops, and cancels them at the end of its patience
        self.tasks.add(cast("asyncio.Task[None]", running))
        running.add_done_callback(functools.partial(self._forget, held))

    def _forget(self, held: _Held, running: asyncio.Future[Any]) -> None:
        self.tasks.discard(cast("asyncio.Task[None]", running))
        self._buffers.release(held.size)

    def _respond(self, held: _Held, response: Response, close: bool) -> None:  # noqa: FBT001  a callback
        """Write a response, and do with the connection what uvicorn does after each of ASGI's."""
        if self.transport.is_closing():
            return
        cycle = held.cycle
        cycle.keep_alive = cycle.keep_alive and not close
        head = [STATUS_LINE[response.status]]
        for name, value in (*self.server_state.default_headers, *response.headers):
            head += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\n\r\n" % len(response.body))
        cycle.response_started = cycle.response_complete = True
        cast("JoinedWrites", self.transport).send(b"".join(head), response.body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _scope(cycle: RequestResponseCycle) -> Scope:
    return cast("Scope", cycle.scope)


def _declared_size(cycle: RequestResponseCycle) -> int | None:
    """Return the size of a body; None if it is not announced, or too large."""
    declared = header(_scope(cycle), b"content-length")
    if declared is None or not declared.isdigit() or len(declared) > len(str(_MOST_BYTES)):
        return None
    size = int(declared)
    return size if size <= _MOST_BYTES else None
