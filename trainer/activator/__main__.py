"""Command line: `python -m trainer.activator --namespace athanor --idle_label … --hold_label …`, in a pod."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from trainer.activator.app import hold_app, metrics_app
from trainer.activator.deployments import Deployments
from trainer.activator.metrics import ActivatorMetrics
from trainer.activator.services import Services
from trainer.common import command_line
from trainer.common.log_lines import log_to_stderr
from trainer.common.validation import between
from trainer.helpers.kubernetes_api import ApiAddress, ApiError, KubernetesApi

if TYPE_CHECKING:
    from collections.abc import Generator

    from trainer.activator.app import App


@dataclass(frozen=True, kw_only=True)
class ActivatorConfig:
    """Start Deployments that scaled to zero when a request comes, and stop those that nobody asked for a while."""

    namespace: str
    """Namespace of the Deployments."""
    idle_label: str
    """Label of those that are ours: seconds without a request after which one is stopped."""
    hold_label: str
    """Label with the longest time, in seconds, that a request waits for the first pod."""
    host: str = "127.0.0.1"
    """Address both ports listen on; 0.0.0.0 in a pod."""
    port: int = 8080
    """Port that proxies ask; 0 takes a free one, named in the log."""
    metrics_port: int = 8081
    """Port of /metrics for Prometheus; 0 takes a free one, named in the log."""
    look_seconds: float = 1.0
    """Time between two looks at the Deployments; while a request waits, a fifth of it."""

    def __post_init__(self) -> None:
        between("port", self.port, 0, 65535)
        between("metrics_port", self.metrics_port, 0, 65535)
        between("look_seconds", self.look_seconds, 0.01, 60)


logger = logging.getLogger("trainer.activator")

_BACKLOG = 2048
_SHUTDOWN_SECONDS = 2


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; 1 when it could not start."""
    config = command_line.parse(ActivatorConfig, "trainer.activator", arguments)
    log_to_stderr(logging.getLogger())
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:
        ApiAddress.in_cluster()
        sockets = [socket.create_server((config.host, port), backlog=_BACKLOG) for port in _ports(config)]
    except (ApiError, OSError) as error:
        logger.error("%s", error)  # noqa: TRY400  no bug of ours
        return 1
    asyncio.run(_run(config, *sockets))
    return 0


def _ports(config: ActivatorConfig) -> tuple[int, int]:
    return config.port, config.metrics_port


async def _run(config: ActivatorConfig, asked: socket.socket, scraped: socket.socket) -> None:
    deployments = Deployments(
        lambda: KubernetesApi(ApiAddress.in_cluster()),
        config.namespace,
        idle_label=config.idle_label,
        hold_label=config.hold_label,
    )
    metrics = ActivatorMetrics(config.namespace)
    services = Services(deployments, metrics, config.look_seconds)
    servers = [_server(hold_app(services)), _server(metrics_app(metrics))]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for server in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    logger.info("listening on port %d, metrics on %d", asked.getsockname()[1], scraped.getsockname()[1])
    looking = loop.create_task(services.run())
    # An error of ours in it must end the process: it would pass requests on to services that nobody starts.
    looking.add_done_callback(lambda _: stop())
    serving = [each.serve(sockets=[own]) for each, own in zip(servers, (asked, scraped), strict=True)]
    try:
        await asyncio.gather(*serving)
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        deployments.close()
        logger.info("stopped")


def _server(app: App) -> _Server:
    return _Server(
        uvicorn.Config(
            app,  # pyright: ignore[reportArgumentType]
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=300,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


class _Server(uvicorn.Server):
    """One of several in a process: none of them may take the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave them to `_run`."""
        yield


if __name__ == "__main__":
    sys.exit(main())
