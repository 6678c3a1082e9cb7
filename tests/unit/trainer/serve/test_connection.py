"""Timers of a connection that loopback sockets cannot bring about quickly."""

import asyncio
import concurrent.futures
import contextlib
from collections import Counter

from uvicorn.server import ServerState

from trainer.serve.client import HttpClient
from trainer.serve.config import LimitsConfig
from trainer.serve.connection import BoundedConfig, BoundedHttpProtocol


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


def test_what_a_client_that_leaves_waits_for_is_cancelled():
    async def scenario():
        asked = asyncio.Event()
        answer = asyncio.get_running_loop().create_future()

        async def app(scope, _receive, send):
            scope["state"]["client"].expect(answer)
            asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await answer
            await send({"type": "http.response.start", "status": 499})
            await send({"type": "http.response.body"})

        protocol, _ = await connect(600, app)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(asked.wait(), 60)
        protocol.connection_lost(None)
        assert answer.cancelled()
        assert protocol._client.gone

    asyncio.run(scenario())


def test_what_a_client_got_is_let_go():
    client = HttpClient()
    got = concurrent.futures.Future()
    client.expect(got)
    client.served()
    client.leave()
    assert not got.cancelled()
