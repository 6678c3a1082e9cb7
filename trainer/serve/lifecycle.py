"""The lifecycle of the server: start, serve, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import math
import os
import signal
import socket
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from trainer.common.log_lines import log_to_stderr
from trainer.serve.app import InferenceApp
from trainer.serve.buffers import BufferBudget
from trainer.serve.connection import BoundedConfig
from trainer.serve.direct import DirectConfig
from trainer.serve.grpc_health import HealthService
from trainer.serve.grpc_server import GrpcServer
from trainer.serve.grpc_service import GrpcService
from trainer.serve.grpc_streams import Streams
from trainer.serve.inference import Inference
from trainer.serve.loader import ModelLoader, Snapshot
from trainer.serve.management import Management
from trainer.serve.metrics import ServerMetrics
from trainer.serve.metrics_app import MetricsApp
from trainer.serve.models import Models
from trainer.serve.registry import ModelRegistry
from trainer.serve.request_log import Observers, RequestLog
from trainer.serve.routes import Routes
from trainer.serve.watcher import RepositoryWatcher

if TYPE_CHECKING:
    from collections.abc import Generator

    from trainer.serve.config import ServeConfig
    from trainer.serve.model_options import ModelOptions
    from trainer.serve.model_worker import ModelWorker
    from trainer.serve.servable import Load
    from trainer.serve.shadow import Shadow
    from trainer.serve.shadow_config import ShadowConfig
    from trainer.serve.tracing import Tracing

logger = logging.getLogger(__name__)

_BACKLOG = 2048
SWITCH_INTERVAL_SECONDS = 0.0002
"""Seconds that a model's thread waits for the interpreter while the event loop parses requests; Python's own 5 ms would
leave the model idle for as long as several batches take."""
_METRICS_SHUTDOWN_SECONDS = 1
_TRACES_SECONDS = 2.0
"""Seconds for the last spans, after everything else."""


def run(config: ServeConfig) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status, 1 when a port is taken."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    log_to_stderr(logging.getLogger())
    # what clients do wrong is counted; a line for each would let them fill the log
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    try:
        sockets = [_listen(config.host, port) for port in (config.http_port, config.metrics_port)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(config, *sockets))
    except OSError as error:
        fix = "Fix: another --host, --http_port, --grpc_port or --metrics_port"
        logger.error("cannot listen on %s: %s. %s", config.host, error, fix)  # noqa: TRY400  no bug of ours
        return 1
    logger.info("stopped")
    logging.shutdown()
    sys.stderr.flush()
    # Not through the interpreter's end: a thread that is still inside torch, with a model that did not finish in
    # time, would crash it.
    os._exit(0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


async def _serve(config: ServeConfig, http_socket: socket.socket, metrics_socket: socket.socket) -> None:
    stop = _stop_event()
    server_metrics = ServerMetrics(*config.model_name)
    workers = _workers(config)
    server_metrics.worker_restarts.update({name: functools.partial(_restarts, each) for name, each in workers.items()})
    registries = {
        name: ModelRegistry(name, server_metrics, options.max_queue_size or config.max_queue_size)
        for name, options in config.options.items()
    }
    models = Models(registries.values())
    watchers = {
        name: _watcher(config, registries[name], options, _load_function(config, options, workers.get(name)))
        for name, options in config.options.items()
    }
    management = Management(models, watchers if config.model_control == "explicit" else None)
    buffers = BufferBudget(config.limits.max_buffered_bytes)
    inference = Inference(models, _shadow(config.shadow, server_metrics))
    routes = Routes(inference, management, config.limits.max_json_bytes)
    request_log = RequestLog(config.log_requests, config.slow_request_seconds)
    tracing = _tracing(config)
    observers = Observers(request_log, *([tracing] if tracing else []))
    app = InferenceApp(routes, server_metrics, config.limits, buffers, observers)
    grpc_server = None
    if config.grpc_port is not None:
        streams = Streams(config.limits.max_grpc_age_seconds)
        service = GrpcService(inference, management, server_metrics, buffers, observers, streams=streams)
        health = HealthService(management, server_metrics.grpc_responses, streams)
        grpc_server = GrpcServer(service, health, streams, config.limits)
        grpc_port = await grpc_server.start(config.host, config.grpc_port)
        logger.info("serving gRPC on port %d", grpc_port)
    http_server = _Server(
        DirectConfig(
            app, config.limits, server_metrics.responses, buffers, shutdown_seconds=config.drain_timeout_seconds
        )
    )
    metrics_app = MetricsApp(server_metrics)
    metrics_server = _Server(
        BoundedConfig(metrics_app, config.limits, Counter(), shutdown_seconds=_METRICS_SHUTDOWN_SECONDS)
    )
    async with asyncio.TaskGroup() as servers:
        servers.create_task(metrics_server.serve(sockets=[metrics_socket]))
        http_task = servers.create_task(http_server.serve(sockets=[http_socket]))
        logger.info(
            "serving http://%s and metrics at http://%s/metrics", _address(http_socket), _address(metrics_socket)
        )
        # a full collection looks at every object of torch, and all requests stop for 80 ms meanwhile
        gc.freeze()
        for watcher in watchers.values():
            watcher.start()
        await stop.wait()
        management.draining = True
        logger.info("stopping: not ready, serving until no request has come for %g s", config.drain_delay_seconds)
        remaining_seconds = await _serve_late_clients(stop, routes, config)
        for watcher in watchers.values():
            watcher.stop()
        http_server.config.timeout_graceful_shutdown = math.ceil(remaining_seconds)
        http_server.should_exit = True
        if grpc_server is not None:
            await grpc_server.stop(remaining_seconds)
        await http_task
        metrics_server.should_exit = True
    for worker in workers.values():
        worker.stop()
    if tracing:
        tracing.close(_TRACES_SECONDS)


def _tracing(config: ServeConfig) -> Tracing | None:
    if config.otlp_endpoint is None:
        return None
    from trainer.serve.tracing import Tracing  # noqa: PLC0415  takes a while, and memory

    return Tracing(config.otlp_endpoint, config.trace_sample_ratio, "-".join(config.model_name))


def _shadow(config: ShadowConfig, server_metrics: ServerMetrics) -> Shadow | None:
    if config.shadow_url is None:
        return None
    from trainer.serve.shadow import Shadow  # noqa: PLC0415  takes memory

    shadow = Shadow(config, config.shadow_url)
    server_metrics.shadow_lines = shadow.metrics.lines
    return shadow


def _workers(config: ServeConfig) -> dict[str, ModelWorker]:
    """Return the processes of several models, by name: one alone runs in the server's own, without a detour."""
    if len(config.model_name) == 1:
        return {}
    from trainer.serve.model_worker import ModelWorker, WorkerSettings  # noqa: PLC0415  one model has no use for it

    # main() has put what all of them together may use there
    share = max(1, int(os.environ["OMP_NUM_THREADS"]) // len(config.model_name))
    return {
        name: ModelWorker(
            WorkerSettings(
                folder=config.model_repository / name,
                warmup_budget_seconds=config.warmup_budget_seconds,
                num_cpu_threads=options.num_cpu_threads or share,
                variant=options.variant,
                max_memory_mib=options.max_memory_mib,
            )
        )
        for name, options in config.options.items()
    }


def _restarts(worker: ModelWorker) -> int:
    return worker.restarts


def _load_function(config: ServeConfig, options: ModelOptions, worker: ModelWorker | None) -> Load:
    if worker is not None:
        return worker.load
    from trainer.serve.local_models import LocalModels  # noqa: PLC0415  torch: a server of several models has none

    return LocalModels(config.warmup_budget_seconds, options.variant).load


def _watcher(config: ServeConfig, registry: ModelRegistry, options: ModelOptions, load: Load) -> RepositoryWatcher:
    loop = asyncio.get_running_loop()

    def publish(snapshot: Snapshot) -> None:
        # the loop is closed when a version was still being loaded at the end
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(registry.apply, snapshot)

    folder = config.model_repository / options.name
    loader = ModelLoader(folder, load, publish, options.version, options.variant)
    return RepositoryWatcher(loader, config.poll_interval_seconds if config.model_control == "poll" else None)


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _serve_late_clients(stop: asyncio.Event, routes: Routes, config: ServeConfig) -> float:
    """Serve until nobody sends HTTP requests any more, or until a second signal says that it is urgent.

    On a busy node kube-proxy may take longer than the delay to see that this pod is going, and connections that it
    still sends here would be refused. Clients of gRPC do not count: they keep theirs until the server ends it.

    Returns:
        What is left of `drain_timeout_seconds`, at least half, for requests that are not answered yet.
    """
    stop.clear()
    delay, half = config.drain_delay_seconds, config.drain_timeout_seconds / 2
    planned = time.monotonic() + delay
    while True:
        end = min(max(planned, routes.last_request_time + delay), planned + half)
        remaining = end - time.monotonic()
        if remaining <= 0:
            return config.drain_timeout_seconds - (end - planned)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), remaining)
            return config.drain_timeout_seconds


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: we drain before it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
