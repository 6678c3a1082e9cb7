"""Completion of gRPC calls: always with a defined status code, counted, and with the client's id."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from trainer.serve.errors import RETRY_ELSEWHERE, RequestError
from trainer.serve.request_log import RequestRecord, valid_header_id

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Generator

logger = logging.getLogger(__name__)

Message = Any
Context = Any  # grpc.aio.ServicerContext, which has no types
_Service = TypeVar("_Service", bound="Service")

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""HTTP's statuses of a RequestError; the rest is INTERNAL."""


def status(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Return the status for the client; an error of our own goes to the log."""
    if isinstance(error, RequestError):
        return _CODES.get(error.status, grpc.StatusCode.INTERNAL), str(error)
    logger.error("a call failed", exc_info=error)
    return grpc.StatusCode.INTERNAL, "internal error; the server's log has the details"


async def fail(context: Context, error: Exception, code: grpc.StatusCode, message: str) -> Message:
    """End a call with the status of an error; raises what ends its handler."""
    more = (RETRY_ELSEWHERE,) if isinstance(error, RequestError) and error.retry_elsewhere else ()
    return await context.abort(code, message, (*(context.trailing_metadata() or ()), *more))


@dataclass(slots=True)
class Call:
    """The outcome of a call."""

    code: grpc.StatusCode = grpc.StatusCode.CANCELLED


@contextlib.contextmanager
def counting(responses: Counter[str]) -> Generator[Call]:
    """Count a call when it has ended; it is cancelled where its code is not set."""
    call = Call()
    try:
        yield call
    finally:
        responses[call.code.name] += 1


class Service(Protocol):
    """Has unary calls."""

    responses: Counter[str]
    """Calls by the name of their status code."""


def checked(request: Message | DecodeError) -> Message:
    """Return a message.

    Raises:
        RequestError: 400, what came is none.
    """
    if isinstance(request, DecodeError):
        raise RequestError(400, f"not a message of this call: {request}")
    return request


def unary(
    method: Callable[[_Service, Message], Awaitable[Message]],
) -> Any:  # noqa: ANN401  the type of the generated base class
    """Give a method the form that gRPC calls, with errors as status codes."""

    @functools.wraps(method)
    async def answer(self: _Service, request: Message, context: Context) -> Message:
        with counting(self.responses) as call:
            try:
                response = await method(self, checked(request))
            except Exception as error:  # noqa: BLE001  whatever fails, the client gets a status
                call.code, message = status(error)
                return await fail(context, error, call.code, message)
            call.code = grpc.StatusCode.OK
            return response

    return answer


def record_of(context: Context) -> RequestRecord:
    """Return the record of a call that begins now."""
    return RequestRecord(
        protocol="grpc", headers=functools.partial(_metadata_values, context), began=time.perf_counter()
    )


def _metadata_values(context: Context, name: str) -> list[str]:
    pairs: list[tuple[str, str | bytes]] = list(context.invocation_metadata() or ())
    return [value for key, value in pairs if key == name and isinstance(value, str)]


def send_id_back(record: RequestRecord, context: Context) -> None:
    """Repeat the id of the call's metadata, as HTTP does with the header."""
    if value := valid_header_id(record.headers("x-request-id")):
        context.set_trailing_metadata((("x-request-id", value),))
