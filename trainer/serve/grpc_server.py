"""The gRPC port, with limits on connections and calls, so that none can be held or filled forever."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2_grpc

from trainer.serve import grpc_health

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainer.serve.config import LimitsConfig
    from trainer.serve.grpc_health import HealthService
    from trainer.serve.grpc_service import GrpcService
    from trainer.serve.grpc_streams import Streams

logger = logging.getLogger(__name__)

_REOPEN_SECONDS = 1.0


class GrpcServer:
    """Listens when asked to, and drains."""

    def __init__(self, service: GrpcService, health: HealthService, streams: Streams, limits: LimitsConfig) -> None:
        self._service = service
        self._health = health
        self._streams = streams
        self._limits = limits
        self._server: Any = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the port is taken.
        """
        asyncio.get_running_loop().set_exception_handler(_report)
        self._server, number = await self._open(host, port)
        self._watch = asyncio.create_task(self._reopen(host, number))
        return number

    async def stop(self, grace_seconds: float) -> None:
        """Take no new calls, and give those under way so long; streams end after the answer that is under way."""
        if self._watch is not None:
            self._watch.cancel()
        self._streams.stop()
        await self._server.stop(grace_seconds)

    async def _open(self, host: str, port: int) -> tuple[Any, int]:
        server: Any = grpc.aio.server(
            options=_options(self._limits),
            maximum_concurrent_rpcs=self._limits.max_grpc_calls,
        )
        registration = _Registration(server)
        cast("Any", service_pb2_grpc).add_GRPCInferenceServiceServicer_to_server(self._service, registration)
        registration.add_registered_method_handlers(grpc_health.SERVICE, self._health.handlers)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            number: int = server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"gRPC failed to bind to {address}; most likely it is in use") from error
        await server.start()
        return server, number

    async def _reopen(self, host: str, port: int) -> None:
        """Listen again whenever gRPC stops by itself: grpc.aio 1.85.1 does when a call's path is not UTF-8."""
        while True:
            try:
                # shielded: canceling what it waits for would cancel the server's own shutdown
                await asyncio.shield(self._server.wait_for_termination())
            except Exception as error:  # noqa: BLE001  whatever ended gRPC, HTTP serves on and gRPC must again
                # not its text, which is partly the client's
                reason = type(error).__name__
                logger.warning("the gRPC port %d closed (%s): opening it again", port, reason)
            await self._server.stop(None)
            try:
                self._server, _ = await self._open(host, port)
            except OSError as error:
                logger.warning("%s; next try in %g s", error, _REOPEN_SECONDS)
                await asyncio.sleep(_REOPEN_SECONDS)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what ends gRPC: `_reopen` logs one line, and a traceback for each would let clients fill the log."""
    if not isinstance(context.get("exception"), UnicodeDecodeError):
        loop.default_exception_handler(context)


class _Registration:
    """Stands before a server while the generated code adds a service, which then also gets what is not a message.

    As the error that it is: gRPC's own answer would be UNKNOWN. An interceptor would replace the parser at each call.
    """

    def __init__(self, server: Any) -> None:  # noqa: ANN401  no types
        self._server = server

    def add_generic_rpc_handlers(self, _handlers: Any) -> None:  # noqa: ANN401  no types
        """Wait for the same handlers with their names."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Add the handlers of a service, with our parser."""
        own = {
            name: handler._replace(request_deserializer=functools.partial(_parse, handler.request_deserializer))
            for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, own),))
        self._server.add_registered_method_handlers(service, own)


def _parse(parse: Callable[[bytes], Any], content: bytes) -> Any:  # noqa: ANN401  generated classes have no types
    try:
        return parse(content)
    except DecodeError as error:
        return error


def _options(limits: LimitsConfig) -> list[tuple[str, int]]:
    """Return channel arguments; source: gRPC Core, "grpc_types.h" (channel_arg_names)."""
    return [
        ("grpc.max_receive_message_length", limits.max_body_bytes),
        # the answer is as large as the model makes it
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.max_head_bytes),
        ("grpc.absolute_max_metadata_size", limits.max_head_bytes),
        ("grpc.max_concurrent_streams", limits.max_grpc_calls),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),
        ("grpc.server_handshake_timeout_ms", round(limits.head_timeout_seconds * 1000)),
        ("grpc.max_connection_idle_ms", limits.keep_alive_seconds * 1000),
        # gRPC sends all requests of a client to one pod, new pods would idle: it is asked to connect again
        ("grpc.max_connection_age_ms", limits.max_grpc_age_seconds * 1000),
        # Then what is still there is cut, such as calls whose message never gets complete. A stream that began just
        # before the connection got old ends by itself before that.
        ("grpc.max_connection_age_grace_ms", round((limits.max_grpc_age_seconds + limits.body_timeout_seconds) * 1000)),
        # ask silent clients for a sign of life; one that is gone or reads nothing is cut off
        ("grpc.keepalive_time_ms", round(limits.write_timeout_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", round(limits.write_timeout_seconds * 1000)),
        # a taken port is an error, not shared with another process
        ("grpc.so_reuseport", 0),
    ]
