"""Requests of a service without pods wait until one answers; a service that nobody asks loses its last one."""

from __future__ import annotations

import asyncio

import pytest

from trainer.activator.deployments import Seen
from trainer.activator.metrics import ActivatorMetrics
from trainer.activator.services import NotStartedError, Services, UnknownServiceError
from trainer.helpers.kubernetes_api import ApiError


class Cluster:
    """Deployments as an API server has them; a pod is ready when the test says so."""

    def __init__(self, *names: str, replicas: int = 1, hold: float = 60) -> None:
        self.replicas = dict.fromkeys(names, replicas)
        self.ready = set(names) if replicas else set()
        self.hold = hold
        self.scaled: list[tuple[str, int]] = []
        self.fails = False

    async def all(self, _loop):
        self._fail()
        return [
            Seen(
                name=name,
                replicas=count,
                ready=bool(count) and name in self.ready,
                idle_seconds=100,
                hold_seconds=self.hold,
            )
            for name, count in self.replicas.items()
        ]

    async def scale(self, _loop, name, replicas):
        self._fail()
        self.scaled.append((name, replicas))
        self.replicas[name] = replicas
        if not replicas:
            self.ready.discard(name)

    def _fail(self) -> None:
        if self.fails:
            raise ApiError("the API server is away")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def services(cluster, clock=None):
    return Services(cluster, ActivatorMetrics("athanor"), look_seconds=0.01, clock=clock or Clock())


async def turns(count: int = 5) -> None:
    """Let what is waiting go on."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_with_pods_a_request_passes_at_once():
    async def scenario():
        cluster = Cluster("digits")
        ours = services(cluster)
        await ours.look()
        await ours.hold("digits")
        assert cluster.scaled == []

    asyncio.run(scenario())


def test_many_requests_start_one_pod_and_all_pass_when_it_answers():
    async def scenario():
        cluster = Cluster("digits", replicas=0)
        ours = services(cluster)
        await ours.look()
        waiting = [asyncio.create_task(ours.hold("digits")) for _ in range(50)]
        await turns()
        await ours.look()
        assert cluster.scaled == [("digits", 1)]
        assert not any(task.done() for task in waiting)
        cluster.ready.add("digits")
        await ours.look()
        await asyncio.gather(*waiting)
        assert cluster.scaled == [("digits", 1)]

    asyncio.run(scenario())


def test_requests_that_come_before_the_next_look_start_nothing_again():
    async def scenario():
        cluster = Cluster("digits", replicas=0)
        ours = services(cluster)
        await ours.look()
        waiting = []
        for _ in range(3):
            waiting.append(asyncio.create_task(ours.hold("digits")))
            await turns()
        assert cluster.scaled == [("digits", 1)]
        for task in waiting:
            task.cancel()

    asyncio.run(scenario())


def test_a_request_waits_no_longer_than_it_says_and_is_refused_then():
    async def scenario():
        ours = services(Cluster("digits", replicas=0, hold=0.01))
        await ours.look()
        with pytest.raises(NotStartedError, match=r"within 0\.01 s"):
            await ours.hold("digits")

    asyncio.run(scenario())


def test_an_idle_service_is_stopped_and_no_sooner():
    async def scenario():
        cluster, clock = Cluster("digits"), Clock()
        ours = services(cluster, clock)
        await ours.look()
        clock.now = 60
        await ours.hold("digits")
        clock.now = 159
        await ours.look()
        assert cluster.scaled == []
        clock.now = 160
        await ours.look()
        assert cluster.scaled == [("digits", 0)]

    asyncio.run(scenario())


def test_one_that_never_became_ready_is_stopped_too():
    async def scenario():
        cluster, clock = Cluster("digits"), Clock()
        cluster.ready.clear()
        ours = services(cluster, clock)
        await ours.look()
        clock.now = 100
        await ours.look()
        assert cluster.scaled == [("digits", 0)]

    asyncio.run(scenario())


def test_a_request_that_comes_while_it_is_stopped_has_it_started_again():
    async def scenario():
        cluster, clock = Cluster("digits"), Clock()
        ours = services(cluster, clock)
        await ours.look()
        clock.now = 100
        waiting: list[asyncio.Task[None]] = []
        scale = cluster.scale

        async def slowly(loop, name, replicas):
            if not replicas:
                waiting.append(asyncio.create_task(ours.hold("digits")))
                await turns()
            await scale(loop, name, replicas)

        cluster.scale = slowly
        await ours.look()
        await turns()
        assert cluster.scaled == [("digits", 0), ("digits", 1)]
        cluster.ready.add("digits")
        await ours.look()
        await waiting[0]

    asyncio.run(scenario())


def test_a_waiting_request_keeps_its_service_however_long_it_takes():
    async def scenario():
        cluster, clock = Cluster("digits", replicas=0), Clock()
        ours = services(cluster, clock)
        await ours.look()
        waiting = asyncio.create_task(ours.hold("digits"))
        await turns()
        clock.now = 500
        await ours.look()
        assert cluster.scaled == [("digits", 1)]
        waiting.cancel()

    asyncio.run(scenario())


def test_a_service_that_was_declared_a_moment_ago_is_known():
    async def scenario():
        cluster = Cluster()
        ours = services(cluster)
        await ours.look()
        cluster.replicas["new"] = 1
        cluster.ready.add("new")
        await ours.hold("new")

    asyncio.run(scenario())


def test_others_are_refused():
    async def scenario():
        ours = services(Cluster("digits"))
        with pytest.raises(UnknownServiceError, match="'others'"):
            await ours.hold("others")

    asyncio.run(scenario())


def test_an_absent_api_server_costs_no_request_and_is_asked_again():
    async def scenario():
        cluster = Cluster("digits", replicas=0)
        ours = services(cluster)
        await ours.look()
        cluster.fails = True
        waiting = asyncio.create_task(ours.hold("digits"))
        await turns()
        await ours.look()
        cluster.fails = False
        await ours.look()
        await turns()
        assert cluster.scaled == [("digits", 1)]
        cluster.ready.add("digits")
        await ours.look()
        await waiting

    asyncio.run(scenario())


def test_it_is_ready_once_it_has_seen_the_services():
    async def scenario():
        cluster = Cluster("digits")
        ours = services(cluster)
        cluster.fails = True
        await ours.look()
        assert not ours.is_ready
        cluster.fails = False
        await ours.look()
        assert ours.is_ready

    asyncio.run(scenario())
