"""GRPCInferenceService of the Open Inference Protocol v2, with Triton's extensions.

Source: Triton, grpc_service.proto. The messages and the base class are generated from it by its publisher, in
`tritonclient`.
"""

# ruff: noqa: N802  the methods have the names of the calls

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import grpc
from tritonclient.grpc import service_pb2_grpc

from trainer.serve.errors import RequestError, unavailable
from trainer.serve.grpc_calls import checked, counting, fail, record_of, send_id_back, status, unary
from trainer.serve.management import LOG_REFUSAL, TRACE_REFUSAL, messages
from trainer.serve.protocol import grpc_messages
from trainer.serve.protocol.parameters import SHARED_MEMORY_REFUSAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import DecodeError

    from trainer.serve.buffers import BufferBudget
    from trainer.serve.grpc_calls import Context, Message
    from trainer.serve.grpc_streams import Streams
    from trainer.serve.inference import Inference
    from trainer.serve.management import Management
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.request_log import Observer, RequestRecord


def _unsupported(what: str) -> Any:  # noqa: ANN401  the type of the generated base class
    async def refuse(_service: GrpcService, _request: Message) -> Message:
        raise RequestError(501, what)

    return unary(refuse)


class GrpcService(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers gRPC calls; every method belongs to the event loop's thread."""

    def __init__(  # noqa: PLR0913  what answers, and what counts, bounds, logs and ends it
        self,
        inference: Inference,
        management: Management,
        metrics: ServerMetrics,
        buffers: BufferBudget,
        observer: Observer,
        *,
        streams: Streams,
    ) -> None:
        self._inference = inference
        self._management = management
        self.responses = metrics.grpc_responses
        """Calls by the name of their status code."""
        self._buffers = buffers
        self._observer = observer
        self._streams = streams

    @unary
    async def ServerLive(self, _request: Message) -> Message:
        """Say that the process answers."""
        return messages.ServerLiveResponse(live=True)

    @unary
    async def ServerReady(self, _request: Message) -> Message:
        """Say whether the server's model answers requests."""
        return messages.ServerReadyResponse(ready=self._management.is_ready())

    @unary
    async def ModelReady(self, request: Message) -> Message:
        """Say whether a model, or a version, answers requests."""
        return messages.ModelReadyResponse(ready=self._management.is_ready(request.name, request.version or None))

    @unary
    async def ServerMetadata(self, _request: Message) -> Message:
        """Return name, version and extensions."""
        return self._management.server_metadata()

    @unary
    async def ModelMetadata(self, request: Message) -> Message:
        """Return versions, inputs and outputs."""
        return self._management.model_metadata(request.name, request.version or None)

    @unary
    async def ModelConfig(self, request: Message) -> Message:
        """Return config.pbtxt."""
        config = self._management.model_config(request.name, request.version or None)
        return messages.ModelConfigResponse(config=config)

    @unary
    async def ModelStatistics(self, request: Message) -> Message:
        """Return the statistics of versions."""
        return self._management.statistics(request.name or None, request.version or None)

    @unary
    async def RepositoryIndex(self, request: Message) -> Message:
        """Return all versions with their state."""
        return self._management.index(ready_only=request.ready)

    @unary
    async def RepositoryModelLoad(self, request: Message) -> Message:
        """Look at the repository now."""
        await self._management.load(request.model_name, request.parameters)
        return messages.RepositoryModelLoadResponse()

    @unary
    async def RepositoryModelUnload(self, request: Message) -> Message:
        """Take all versions out of service."""
        await self._management.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()

    async def ModelInfer(self, request: Message, context: Context) -> Message:
        """Run the model."""
        record = record_of(context)
        send_id_back(record, context)
        with counting(self.responses) as call:
            try:
                response = await self._infer(request, record)
            except Exception as error:  # noqa: BLE001  whatever fails, the client gets a status
                call.code, message = status(error)
                self._observer.ended(record, call.code.name, message)
                return await fail(context, error, call.code, message)
            call.code = grpc.StatusCode.OK
            self._observer.ended(record, call.code.name)
            return response

    async def ModelStreamInfer(
        self,
        request_iterator: AsyncIterator[Message],
        context: Context,
    ) -> AsyncIterator[Message]:
        """Run the model on each request of a stream, in order; one that fails does not end the stream.

        It ends with UNAVAILABLE, after an answer, when it is old or the server stops.
        """
        with counting(self.responses) as call:
            try:
                async for request in self._streams.until_the_end(aiter(request_iterator)):
                    yield await self._stream_response(request, record_of(context))
            except RequestError as error:
                call.code, message = status(error)
                await fail(context, error, call.code, message)
            call.code = grpc.StatusCode.OK

    SystemSharedMemoryStatus = SystemSharedMemoryRegister = SystemSharedMemoryUnregister = _unsupported(
        SHARED_MEMORY_REFUSAL
    )
    CudaSharedMemoryStatus = CudaSharedMemoryRegister = CudaSharedMemoryUnregister = _unsupported(SHARED_MEMORY_REFUSAL)
    TraceSetting = _unsupported(TRACE_REFUSAL)
    LogSettings = _unsupported(LOG_REFUSAL)

    async def _stream_response(self, request: Message | DecodeError, record: RequestRecord) -> Message:
        try:
            response = await self._infer(request, record)
        except Exception as error:  # noqa: BLE001  as for a single request
            code, message = status(error)
            self._observer.ended(record, code.name, message)
            return messages.ModelStreamInferResponse(error_message=message, infer_response={"id": record.body_id or ""})
        self._observer.ended(record, grpc.StatusCode.OK.name)
        # as Triton, which serves models with several answers, too: clients wait for the last one of each request
        response.parameters["triton_final_response"].bool_param = True
        return messages.ModelStreamInferResponse(infer_response=response)

    async def _infer(self, message: Message | DecodeError, record: RequestRecord) -> Message:
        try:
            return await self._answer(checked(message), record)
        except asyncio.CancelledError:
            self._observer.ended(record, grpc.StatusCode.CANCELLED.name, "the client left, or the server stopped")
            raise

    async def _answer(self, request: Message, record: RequestRecord) -> Message:
        record.body_id = request.id or None
        raw: list[bytes] = list(request.raw_input_contents)
        size = sum(map(len, raw)) or request.ByteSize()
        self._buffers.take(size)
        try:
            if self._buffers.exceeded:
                raise unavailable(self._buffers.refusal)
            model, version = request.model_name, request.model_version or None
            decode = functools.partial(grpc_messages.decode, request, raw)
            answer = await self._inference.infer(model, version, record, decode, grpc_messages.encode)
            return messages.ModelInferResponse(**answer)
        finally:
            self._buffers.release(size)
