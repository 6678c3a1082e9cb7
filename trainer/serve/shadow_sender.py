"""The thread that sends requests to the shadow and compares its answers, away from the loop that answers clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import h11

from trainer.model_repository import torch_error
from trainer.serve.errors import RequestError
from trainer.serve.protocol import client_messages, tensors
from trainer.serve.request_log import printable
from trainer.serve.shadow_config import shadow_address
from trainer.serve.shadow_connection import ShadowConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.response import Headers
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.shadow_comparison import Comparer, Comparison
    from trainer.serve.shadow_metrics import FailureReason

_CONNECTIONS = 8
"""Requests under way at a time: enough for the shadow to batch them."""
_MAX_REASON_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A request that was answered, and our answer."""

    spec: ModelSpec
    body_id: str | None
    """The id in the request's message."""
    header_id: str | None
    """The id in its header, where there is a valid one."""
    log_id: str | None
    """One of the two, safe to log."""
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    """All outputs of the model, whichever the client asked for."""
    seconds: float
    """Seconds from the request's first byte to our answer."""
    size: int
    """Bytes of inputs and outputs."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The shadow gave no answer that could be compared."""

    reason: FailureReason
    detail: str
    """Text for the log."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The shadow answered."""

    comparison: Comparison
    seconds: float
    """Seconds from the connection, or the first byte on an open one, to the last byte of the answer."""


Outcome = Failure | Compared


class _StatusError(Exception):
    """The shadow refused the request."""


class ShadowSender:
    """Owns a daemon thread: nothing waits for it, neither a client nor the end of the process."""

    def __init__(
        self,
        url: str,
        model: str | None,
        timeout_seconds: float,
        comparer: Comparer,
        ended: Callable[[Sample, Outcome], None],
    ) -> None:
        """Start the thread; `ended` is called on the running event loop, once for each sample."""
        self._host, self._port = shadow_address(url)
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._comparer = comparer
        self._ended = ended
        self._clients_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._samples: asyncio.Queue[Sample] = asyncio.Queue()
        threading.Thread(target=self._run, args=(self._work_all(),), name="shadow", daemon=True).start()

    def send(self, sample: Sample) -> None:
        """Send a sample as soon as a connection is free; returns at once."""
        self._loop.call_soon_threadsafe(self._samples.put_nowait, sample)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(work)

    async def _work_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(self._work(ShadowConnection(self._host, self._port)))

    async def _work(self, connection: ShadowConnection) -> None:
        while True:
            sample = await self._samples.get()
            outcome = await self._outcome(connection, sample)
            # the loop is closed when the server has stopped
            with contextlib.suppress(RuntimeError):
                self._clients_loop.call_soon_threadsafe(self._ended, sample, outcome)

    async def _outcome(self, connection: ShadowConnection, sample: Sample) -> Outcome:
        try:
            return await self._compare(connection, sample)
        except TimeoutError:
            return Failure("timeout", f"no answer within {self._timeout_seconds:g} s")
        except (OSError, h11.RemoteProtocolError) as error:
            return Failure("connection", _described(error))
        except _StatusError as error:
            return Failure("status", str(error))
        except Exception as error:  # noqa: BLE001  whatever a shadow sends, the next request is sent to it, too
            return Failure("answer", _described(error))

    async def _compare(self, connection: ShadowConnection, sample: Sample) -> Compared:
        headers, body = client_messages.encode(sample.inputs, sample.spec, sample.body_id)
        named: Headers = [(b"x-request-id", sample.header_id.encode())] if sample.header_id else []
        target = f"/v2/models/{self._model or sample.spec.name}/infer"
        largest = client_messages.MAX_ANSWER_JSON_BYTES + sum(map(tensors.binary_size, sample.outputs))
        began = time.perf_counter()
        async with asyncio.timeout(self._timeout_seconds):
            answer = await connection.post(target, [*headers, *named], body, largest)
        seconds = time.perf_counter() - began
        if answer.status != 200:
            text = printable(answer.body[:_MAX_REASON_CHARACTERS].decode("utf-8", "replace"), _MAX_REASON_CHARACTERS)
            raise _StatusError(f"{answer.status} {text}")
        header_length = answer.header(b"inference-header-content-length")
        theirs = client_messages.decode(answer.body, header_length, sample.spec)
        return Compared(self._comparer.compare(sample.spec, sample.outputs, theirs), seconds)


def _described(error: Exception) -> str:
    text = str(error) if isinstance(error, RequestError) else torch_error.reason(error)
    return printable(text, _MAX_REASON_CHARACTERS)
