"""State of the activated services: asleep or awake, the requests that wait for them, and when they are stopped.

All of it belongs to the event loop's thread. A Deployment without pods is left alone by its HorizontalPodAutoscaler
(Kubernetes, "Horizontal Pod Autoscaling", implicit maintenance-mode deactivation), and taken up again with the first.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from trainer.helpers.kubernetes_api import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.activator.deployments import Seen
    from trainer.activator.metrics import ActivatorMetrics

logger = logging.getLogger(__name__)

_LOOKS_WHILE_WAITING = 5
"""Factor by which it looks more often while a request waits."""


class UnknownServiceError(Exception):
    """No such service scales to zero."""


class NotStartedError(Exception):
    """No pod was ready within the time that a request waits."""


class ApiOfDeployments(Protocol):
    """Requests to the API server; see `Deployments`."""

    async def all(self, loop: asyncio.AbstractEventLoop) -> list[Seen]: ...  # noqa: D102
    async def scale(self, loop: asyncio.AbstractEventLoop, name: str, replicas: int) -> None: ...  # noqa: D102


@dataclass(slots=True)
class _Service:
    """The state of one service."""

    seen: Seen
    asked: float
    """Time of the last request, by the loop's clock; initially that of the first sight of the service."""
    is_awake: bool
    """Whether requests pass at once."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a pod answers."""
    waiting: int = 0
    starting: asyncio.Task[None] | None = None


class Services:
    """Holds requests until a pod answers; see the module's text."""

    def __init__(
        self,
        deployments: ApiOfDeployments,
        metrics: ActivatorMetrics,
        look_seconds: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._deployments = deployments
        self._metrics = metrics
        self._look_seconds = look_seconds
        self._loop = asyncio.get_running_loop()
        self._clock = clock or self._loop.time
        self._services: dict[str, _Service] = {}
        self._look_now = asyncio.Event()
        self._looked = asyncio.Event()
        self._failure = ""

    @property
    def is_ready(self) -> bool:
        """Whether it knows the services."""
        return self._looked.is_set()

    async def hold(self, name: str) -> None:
        """Return when a pod of the service answers, having it started if there is none.

        Raises:
            UnknownServiceError: no such service scales to zero.
            NotStartedError: no pod was ready in time; the message says how long that was.
        """
        service = self._services.get(name) or await self._new_service(name)
        service.asked = self._clock()
        if service.is_awake:
            self._metrics.of(self._metrics.requests, name, "passed").inc()
            return
        began = self._clock()
        service.waiting += 1
        self._metrics.of(self._metrics.waiting, name).set(service.waiting)
        try:
            self._start(name, service)
            await asyncio.wait_for(service.changed.wait(), service.seen.hold_seconds)
        except TimeoutError:
            self._metrics.of(self._metrics.requests, name, "timeout").inc()
            raise NotStartedError(f"no pod was ready within {service.seen.hold_seconds:g} s") from None
        finally:
            service.waiting -= 1
            service.asked = self._clock()
            self._metrics.of(self._metrics.waiting, name).set(service.waiting)
        self._metrics.of(self._metrics.requests, name, "held").inc()
        self._metrics.of(self._metrics.held, name).observe(self._clock() - began)

    async def run(self) -> None:
        """Look at the Deployments until it is cancelled."""
        while True:
            await self.look()
            share = _LOOKS_WHILE_WAITING if any(each.waiting for each in self._services.values()) else 1
            self._look_now.clear()
            try:
                await asyncio.wait_for(self._look_now.wait(), self._look_seconds / share)
            except TimeoutError:
                continue

    async def look(self) -> None:
        """Take over what the API server says, and stop what nobody asked for a while."""
        try:
            present = await self._deployments.all(self._loop)
        except ApiError as error:
            self._note_failure(str(error))
            return
        self._note_failure("")
        self._services = {seen.name: self._updated(seen) for seen in present}
        self._looked.set()
        for name, service in list(self._services.items()):
            if self._is_idle(service):
                await self._stop(name, service)

    def _updated(self, seen: Seen) -> _Service:
        service = self._services.get(seen.name)
        if service is None:
            return _Service(seen=seen, asked=self._clock(), is_awake=seen.ready)
        service.seen = seen
        service.is_awake = seen.ready
        if seen.ready:
            service.changed.set()
        else:
            service.changed.clear()
            if service.waiting:
                self._start(seen.name, service)
        return service

    async def _new_service(self, name: str) -> _Service:
        """Return one that may be there since the last look."""
        await self.look()
        if name not in self._services:
            self._metrics.of(self._metrics.requests, "", "unknown").inc()
            raise UnknownServiceError(f"no service {name[:80]!r} that scales to zero")
        return self._services[name]

    def _is_idle(self, service: _Service) -> bool:
        seen = service.seen
        return seen.replicas > 0 and not service.waiting and self._clock() - service.asked >= seen.idle_seconds

    async def _stop(self, name: str, service: _Service) -> None:
        # First, so that a request that comes meanwhile waits, and has it started again.
        service.is_awake = False
        service.changed.clear()
        try:
            await self._deployments.scale(self._loop, name, 0)
        except ApiError as error:
            self._note_failure(str(error))
            return
        service.seen = replace(service.seen, replicas=0, ready=False)
        logger.info("%s: stopped after %g s without a request", name, service.seen.idle_seconds)
        self._metrics.of(self._metrics.stops, name).inc()
        if service.waiting:
            self._start(name, service)

    def _start(self, name: str, service: _Service) -> None:
        """Start a pod, unless one is starting already."""
        self._look_now.set()
        if service.starting is None and service.seen.replicas == 0:
            service.starting = self._loop.create_task(self._scale_up(name, service))

    async def _scale_up(self, name: str, service: _Service) -> None:
        try:
            await self._deployments.scale(self._loop, name, 1)
        except ApiError as error:
            # The next look tries again.
            self._note_failure(str(error))
        else:
            # Until the next look, for the requests that come meanwhile.
            service.seen = replace(service.seen, replicas=1, ready=False)
            logger.info("%s: started for a request", name)
            self._metrics.of(self._metrics.starts, name).inc()
        finally:
            service.starting = None

    def _note_failure(self, reason: str) -> None:
        """Log a reason once in a row."""
        if reason and reason != self._failure:
            logger.error("%s", reason)
        self._failure = reason
