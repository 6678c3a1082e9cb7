"""Timers of a connection that loopback sockets cannot bring about quickly."""

import asyncio
from collections import Counter

import pytest
from uvicorn.server import ServerState

from trainer.serve.client import HttpClient
from trainer.serve.config import LimitsConfig
from trainer.serve.connection import BoundedConfig, BoundedHttpProtocol
from trainer.serve.errors import ClientDisconnectedError


class FullTransport(asyncio.Transport):
    """A client that reads nothing."""

    def __init__(self):
        super().__init__()
        self.aborted = asyncio.Event()

    def is_closing(self):
        return self.aborted.is_set()

    def close(self):
        self.aborted.set()

    def abort(self):
        self.aborted.set()


async def no_app(scope, receive, send):
    """Is never called: no request comes."""


async def connect(write_timeout_seconds, app=no_app):
    config = BoundedConfig(
        app, LimitsConfig(write_timeout_seconds=write_timeout_seconds), Counter(), shutdown_seconds=1
    )
    protocol = BoundedHttpProtocol(config, ServerState(), {})
    transport = FullTransport()
    protocol.connection_made(transport)
    return protocol, transport


def test_client_that_reads_nothing_is_cut_off():
    async def scenario():
        protocol, transport = await connect(0.001)
        protocol.pause_writing()
        await asyncio.wait_for(transport.aborted.wait(), 60)
        protocol.connection_lost(ConnectionResetError())

    asyncio.run(scenario())


def test_client_that_reads_on_is_not():
    async def scenario():
        protocol, transport = await connect(600)
        protocol.pause_writing()
        timer = protocol._write_timer
        protocol.resume_writing()
        assert timer.cancelled()
        assert not transport.aborted.is_set()
        protocol.connection_lost(ConnectionResetError())
        assert protocol._head_timer is None

    asyncio.run(scenario())


def test_request_of_a_client_that_leaves_is_cancelled():
    async def scenario():
        asked = asyncio.Event()
        left = asyncio.get_running_loop().create_future()
        answer = asyncio.get_running_loop().create_future()

        async def app(scope, _receive, _send):
            asked.set()
            try:
                await scope["state"]["client"].wait_for(answer)
            except ClientDisconnectedError:
                left.set_result(answer.cancelled())

        protocol, _ = await connect(600, app)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(asked.wait(), 60)
        protocol.connection_lost(None)
        assert await asyncio.wait_for(left, 60)

    asyncio.run(scenario())


def test_request_that_the_server_cancels_has_not_lost_its_client():
    async def scenario():
        waiting = asyncio.ensure_future(HttpClient().wait_for(asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
