"""GRPCInferenceService of the Open Inference Protocol v2, with Triton's extensions.

Source: Triton, grpc_service.proto. The messages and the base class are generated from it by its publisher, in
`tritonclient`.
"""

# ruff: noqa: N802  the methods have the names of the calls

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2_grpc

from trainer.serve.errors import RequestError
from trainer.serve.management import LOG_REFUSAL, TRACE_REFUSAL, messages
from trainer.serve.protocol import grpc_messages
from trainer.serve.protocol.parameters import SHARED_MEMORY_REFUSAL
from trainer.serve.request_log import RequestRecord, valid_header_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

    from trainer.serve.buffers import BufferBudget
    from trainer.serve.inference import Inference
    from trainer.serve.management import Management
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.request_log import Observer

logger = logging.getLogger(__name__)

_Message = Any
_Context = Any  # grpc.aio.ServicerContext, which has no types
_Service = TypeVar("_Service", bound="GrpcService")

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""HTTP's statuses of a RequestError; the rest is INTERNAL."""


def _status(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Return the status for the client; an error of our own goes to the log."""
    if isinstance(error, RequestError):
        return _CODES.get(error.status, grpc.StatusCode.INTERNAL), str(error)
    logger.error("a call failed", exc_info=error)
    return grpc.StatusCode.INTERNAL, "internal error; the server's log has the details"


@dataclass(slots=True)
class _Call:
    """How a call ended."""

    code: grpc.StatusCode = grpc.StatusCode.CANCELLED


def _message(request: _Message | DecodeError) -> _Message:
    if isinstance(request, DecodeError):
        raise RequestError(400, f"not a message of this call: {request}")
    return request


def _rpc(
    method: Callable[[_Service, _Message], Awaitable[_Message]],
) -> Any:  # noqa: ANN401  the type of the generated base class
    """Give a method the form that gRPC calls, with errors as status codes."""

    @functools.wraps(method)
    async def answer(self: _Service, request: _Message, context: _Context) -> _Message:
        with self.counting() as call:
            try:
                response = await method(self, _message(request))
            except Exception as error:  # noqa: BLE001  whatever fails, the client gets a status
                call.code, message = _status(error)
                return await context.abort(call.code, message)
            call.code = grpc.StatusCode.OK
            return response

    return answer


def _record(context: _Context) -> RequestRecord:
    return RequestRecord(
        protocol="grpc", headers=functools.partial(_metadata_values, context), began=time.perf_counter()
    )


def _metadata_values(context: _Context, name: str) -> list[str]:
    pairs: list[tuple[str, str | bytes]] = list(context.invocation_metadata() or ())
    return [value for key, value in pairs if key == name and isinstance(value, str)]


def _send_id_back(record: RequestRecord, context: _Context) -> None:
    """Repeat the id of the call's metadata, as HTTP does with the header."""
    if value := valid_header_id(record.headers("x-request-id")):
        context.set_trailing_metadata((("x-request-id", value),))


def _unsupported(what: str) -> Any:  # noqa: ANN401  as above
    async def refuse(_service: GrpcService, _request: _Message) -> _Message:
        raise RequestError(501, what)

    return _rpc(refuse)


class GrpcService(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers gRPC calls; every method belongs to the event loop's thread."""

    def __init__(
        self,
        inference: Inference,
        management: Management,
        metrics: ServerMetrics,
        buffers: BufferBudget,
        observer: Observer,
    ) -> None:
        self._inference = inference
        self._management = management
        self._metrics = metrics
        self._buffers = buffers
        self._observer = observer

    @contextlib.contextmanager
    def counting(self) -> Generator[_Call]:
        """Count a call when it has ended; it is cancelled where its code is not set."""
        call = _Call()
        try:
            yield call
        finally:
            self._metrics.grpc_responses[call.code.name] += 1

    @_rpc
    async def ServerLive(self, _request: _Message) -> _Message:
        """Say that the process answers."""
        return messages.ServerLiveResponse(live=True)

    @_rpc
    async def ServerReady(self, _request: _Message) -> _Message:
        """Say whether the server's model answers requests."""
        return messages.ServerReadyResponse(ready=self._is_ready())

    @_rpc
    async def ModelReady(self, request: _Message) -> _Message:
        """Say whether a model, or a version, answers requests."""
        return messages.ModelReadyResponse(ready=self._is_ready(request.name, request.version))

    @_rpc
    async def ServerMetadata(self, _request: _Message) -> _Message:
        """Return name, version and extensions."""
        return self._management.server_metadata()

    @_rpc
    async def ModelMetadata(self, request: _Message) -> _Message:
        """Return versions, inputs and outputs."""
        return self._management.model_metadata(request.name, request.version or None)

    @_rpc
    async def ModelConfig(self, request: _Message) -> _Message:
        """Return config.pbtxt."""
        config = self._management.model_config(request.name, request.version or None)
        return messages.ModelConfigResponse(config=config)

    @_rpc
    async def ModelStatistics(self, request: _Message) -> _Message:
        """Return what versions did."""
        return self._management.statistics(request.name or None, request.version or None)

    @_rpc
    async def RepositoryIndex(self, request: _Message) -> _Message:
        """Return all versions with their state."""
        return self._management.index(ready_only=request.ready)

    @_rpc
    async def RepositoryModelLoad(self, request: _Message) -> _Message:
        """Look at the repository now."""
        await self._management.load(request.model_name, request.parameters)
        return messages.RepositoryModelLoadResponse()

    @_rpc
    async def RepositoryModelUnload(self, request: _Message) -> _Message:
        """Take all versions out of service."""
        await self._management.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()

    async def ModelInfer(self, request: _Message, context: _Context) -> _Message:
        """Run the model."""
        record = _record(context)
        _send_id_back(record, context)
        with self.counting() as call:
            try:
                response = await self._infer(request, record)
            except Exception as error:  # noqa: BLE001  whatever fails, the client gets a status
                call.code, message = _status(error)
                self._observer.ended(record, call.code.name, message)
                return await context.abort(call.code, message)
            call.code = grpc.StatusCode.OK
            self._observer.ended(record, call.code.name)
            return response

    async def ModelStreamInfer(
        self,
        request_iterator: AsyncIterator[_Message],
        context: _Context,
    ) -> AsyncIterator[_Message]:
        """Run the model on each request of a stream, in order; one that fails does not end the stream."""
        with self.counting() as call:
            async for request in request_iterator:
                yield await self._stream_response(request, _record(context))
            call.code = grpc.StatusCode.OK

    SystemSharedMemoryStatus = SystemSharedMemoryRegister = SystemSharedMemoryUnregister = _unsupported(
        SHARED_MEMORY_REFUSAL
    )
    CudaSharedMemoryStatus = CudaSharedMemoryRegister = CudaSharedMemoryUnregister = _unsupported(SHARED_MEMORY_REFUSAL)
    TraceSetting = _unsupported(TRACE_REFUSAL)
    LogSettings = _unsupported(LOG_REFUSAL)

    async def _stream_response(self, request: _Message | DecodeError, record: RequestRecord) -> _Message:
        try:
            response = await self._infer(request, record)
        except Exception as error:  # noqa: BLE001  as for a single request
            code, message = _status(error)
            self._observer.ended(record, code.name, message)
            return messages.ModelStreamInferResponse(error_message=message, infer_response={"id": record.body_id or ""})
        self._observer.ended(record, grpc.StatusCode.OK.name)
        # as Triton, which serves models with several answers, too: clients wait for the last one of each request
        response.parameters["triton_final_response"].bool_param = True
        return messages.ModelStreamInferResponse(infer_response=response)

    async def _infer(self, message: _Message | DecodeError, record: RequestRecord) -> _Message:
        try:
            return await self._answer(_message(message), record)
        except asyncio.CancelledError:
            self._observer.ended(record, grpc.StatusCode.CANCELLED.name, "the client left, or the server stopped")
            raise

    async def _answer(self, request: _Message, record: RequestRecord) -> _Message:
        record.body_id = request.id or None
        raw: list[bytes] = list(request.raw_input_contents)
        size = sum(map(len, raw)) or request.ByteSize()
        self._buffers.take(size)
        try:
            if self._buffers.exceeded:
                raise RequestError(503, self._buffers.refusal)
            model, version = request.model_name, request.model_version or None
            decode = functools.partial(grpc_messages.decode, request, raw)
            answer = await self._inference.infer(model, version, record, decode, grpc_messages.encode)
            return messages.ModelInferResponse(**answer)
        finally:
            self._buffers.release(size)

    def _is_ready(self, model: str | None = None, version: str = "") -> bool:
        try:
            self._management.check_ready(model, version or None)
        except RequestError:
            return False
        return True
