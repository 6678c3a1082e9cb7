"""grpc.health.v1.Health, the service of Kubernetes' gRPC probes, Envoy and gRPC's own clients.

Source: gRPC, "GRPC Health Checking Protocol" and health.proto. Its two messages are described here: for them alone the
package grpcio-health-checking would be one more to pin and to keep equal to gRPC's version.
"""

# ruff: noqa: N802  the methods have the names of the calls

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from trainer.serve.errors import RequestError
from trainer.serve.grpc_calls import checked, counting, fail, status, unary

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator

    from trainer.serve.grpc_calls import Context, Message
    from trainer.serve.grpc_streams import Streams
    from trainer.serve.management import Management

SERVICE = "grpc.health.v1.Health"
_PACKAGE = "grpc.health.v1"
_SERVICES = ("", "inference.GRPCInferenceService")
"""Services of this server; the empty name is the server itself."""
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_LOOK_SECONDS = 1.0
"""Seconds between comparisons of a watched status with the last one."""


def _messages() -> tuple[Any, Any]:
    """Return the classes of request and response."""
    file = descriptor_pb2.FileDescriptorProto(name="health.proto", package=_PACKAGE, syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    request = file.message_type.add(name="HealthCheckRequest")
    request.field.add(name="service", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    response = file.message_type.add(name="HealthCheckResponse")
    values = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(_STATUSES):
        values.value.add(name=name, number=number)
    kind = f".{_PACKAGE}.HealthCheckResponse.ServingStatus"
    response.field.add(name="status", number=1, type=field.TYPE_ENUM, type_name=kind, label=field.LABEL_OPTIONAL)
    # a pool of its own: a client's generated code in the same process describes the same names
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    names = ("HealthCheckRequest", "HealthCheckResponse")
    classes = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names]
    return cast("tuple[Any, Any]", tuple(classes))


HealthCheckRequest, HealthCheckResponse = _messages()


class HealthService:
    """Says whether the server's models answer requests; every method belongs to the event loop's thread."""

    def __init__(self, management: Management, responses: Counter[str], streams: Streams) -> None:
        """Count calls in `responses`, by the name of their status code."""
        self._management = management
        self.responses = responses
        self._streams = streams

    @property
    def handlers(self) -> dict[str, Any]:
        """Those of its calls, by name."""
        return {
            "Check": grpc.unary_unary_rpc_method_handler(
                self.Check, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                self.Watch, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
            ),
        }

    @unary
    async def Check(self, request: Message) -> Message:
        """Return the status now."""
        if request.service not in _SERVICES:
            raise RequestError(404, f"unknown service {request.service[:80]!r}; serving: {list(_SERVICES)}")
        return HealthCheckResponse(status=self._status(request.service))

    async def Watch(self, request: Message, context: Context) -> AsyncIterator[Message]:
        """Return the status, and each other one that follows."""
        with counting(self.responses) as call:
            last = ""
            try:
                service = checked(request).service
                async for _ in self._streams.until_the_end(_ticks()):
                    now = self._status(service)
                    if now != last:
                        last = now
                        yield HealthCheckResponse(status=now)
            except RequestError as error:
                call.code, message = status(error)
                await fail(context, error, call.code, message)

    def _status(self, service: str) -> str:
        if service not in _SERVICES:
            return "SERVICE_UNKNOWN"
        return "SERVING" if self._management.is_ready() else "NOT_SERVING"


async def _ticks() -> AsyncIterator[None]:
    while True:
        yield
        await asyncio.sleep(_LOOK_SECONDS)
