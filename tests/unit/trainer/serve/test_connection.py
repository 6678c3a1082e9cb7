"""Timers of a connection that loopback sockets cannot bring about quickly."""

import asyncio
import concurrent.futures
import contextlib
import re
from collections import Counter

import uvloop
from uvicorn.server import ServerState

from tests.tables import each_row
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


class RecordingTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.closed = False
        self.written = b""

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def write(self, data):
        self.written += data

    def writelines(self, parts):
        self.written += b"".join(parts)

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def echo(_scope, receive, send):
    """Answer with the body of the request."""
    message = await receive()
    body = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def answers_to(*packets: bytes, **limits: int) -> RecordingTransport:
    """Return the transport of a connection that got some packets, once all its requests are answered."""
    config = BoundedConfig(echo, LimitsConfig(**limits), Counter(), shutdown_seconds=1)
    protocol = BoundedHttpProtocol(config, ServerState(), {})
    transport = RecordingTransport()
    protocol.connection_made(transport)
    for packet in packets:
        protocol.data_received(packet)
    # what is closed answers nothing more
    while not transport.closed and (tasks := set(protocol.tasks)):
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
    # not None, for which uvicorn closes the transport once more
    protocol.connection_lost(ConnectionResetError())
    return transport


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
"""Of Java's HttpClient."""
HEAD = b"POST / HTTP/1.1\r\nhost: a\r\n" + OFFER


@each_row(
    ("packets", "bodies"),
    [
        ([HEAD + b"content-length: 5\r\n\r\nfirst"], [b"first"]),
        ([HEAD + b"content-length: 5\r\n\r\n", b"fir", b"st"], [b"first"]),
        ([HEAD[:20], HEAD[20:] + b"content-length: 5\r\n\r\nfi", b"rst"], [b"first"]),
        ([HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"], [b"first"]),
        (
            [2 * (HEAD + b"content-length: 5\r\n\r\nfirst") + b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nlast"],
            [b"first", b"first", b"last"],
        ),
        ([b"GET / HTTP/1.1\r\nhost: a\r\n" + OFFER + b"\r\n"], [b""]),
    ],
    ids=["one packet", "body later", "split head", "chunked", "pipelined", "no body"],
)
def test_an_offer_to_upgrade_is_ignored_and_the_body_is_read(packets, bodies):
    transport = asyncio.run(answers_to(*packets))
    written = transport.written
    for body in bodies:
        _, status_line, written = written.partition(b"HTTP/1.1 200 OK\r\n")
        assert status_line
        assert written.split(b"\r\n\r\n", 1)[1].startswith(body), transport.written
    assert written.endswith(b"\r\n\r\n" + bodies[-1])
    assert not transport.closed


def test_connect_is_refused():
    transport = asyncio.run(answers_to(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\nabc"))
    assert transport.written.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nallow: GET, POST\r\n" in transport.written
    assert transport.closed


GET = b"GET / HTTP/1.1\r\n"
POST = b"POST / HTTP/1.1\r\n"
LONG = b"x: " + 1500 * b"a" + b"\r\n"


@each_row(
    ("packets", "statuses"),
    [
        ([GET + LONG + b"\r\n"], [431]),
        ([b"GET /" + 1500 * b"a" + b" HTTP/1.1\r\n\r\n"], [431]),
        ([GET + LONG[:600], LONG[600:] + b"\r\n"], [431]),
        ([GET + LONG[:600], LONG[600:]], [431]),
        ([GET + b"\r\n" + GET + LONG + b"\r\n"], [431]),
        ([POST + b"content-length: 5\r\n" + LONG + b"\r\nfirst"], [431]),
        ([POST + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n" + LONG + b"\r\n"], [431]),
        ([POST + b"content-length: 2000\r\n\r\n" + 2000 * b"a"], [200]),
        (10 * [GET + b"x: " + 100 * b"a" + b"\r\n\r\n"], 10 * [200]),
        ([10 * (GET + b"x: " + 100 * b"a" + b"\r\n\r\n")], 10 * [200]),
    ],
    ids=[
        *("one packet", "long path", "ends in the second packet", "does not end", "pipelined", "with a body"),
        *("trailers", "long body", "many small ones", "many small ones in a packet"),
    ],
)
def test_a_head_beyond_the_limit_is_refused_however_it_comes(packets, statuses):
    transport = asyncio.run(answers_to(*packets, max_head_bytes=1024))
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", transport.written)] == statuses
    assert transport.closed == (431 in statuses)


HALF_CLOSED = b"GET / HTTP/%s\r\n\r\n"


class Answering:
    """A server of this protocol on loopback, whose answer waits for the test."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()

    async def __call__(self, scope, _receive, send):
        client = scope["state"]["client"]
        client.expect(self.answer)
        self.asked.set()
        try:
            body = await self.answer
        except asyncio.CancelledError:
            self.gone.set()
            return
        client.served()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    @contextlib.asynccontextmanager
    async def client(self, request):
        """Send a request."""
        config = BoundedConfig(self, LimitsConfig(), Counter(), shutdown_seconds=1)
        server = await asyncio.get_running_loop().create_server(
            lambda: BoundedHttpProtocol(config, ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(request)
            async with asyncio.timeout(60):
                await self.asked.wait()
                yield reader, writer
            writer.close()


def run_on_uvloop(scenario):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


@each_row("version", [b"1.1", b"1.0"])
def test_a_client_that_sends_nothing_more_gets_its_answer_and_the_connection_ends(version):
    async def scenario():
        app = Answering()
        async with app.client(HALF_CLOSED % version) as (reader, writer):
            writer.write_eof()
            assert await reader.readexactly(9) == b"HTTP/1.1 "  # before the answer is there
            app.answer.set_result(b"whole")
            assert re.fullmatch(rb"200 OK\r\n.*connection: close\r\n\r\nwhole", await reader.read(), re.DOTALL)

    run_on_uvloop(scenario)


def test_a_client_that_is_gone_is_noticed_while_it_waits_for_its_answer():
    async def scenario():
        app = Answering()
        async with app.client(HALF_CLOSED % b"1.1") as (_, writer):
            writer.close()
            await app.gone.wait()
        assert app.answer.cancelled()

    run_on_uvloop(scenario)


def test_a_client_that_ends_in_the_middle_of_a_request_gets_no_answer():
    async def scenario():
        app = Answering()
        async with app.client(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n1") as (reader, writer):
            writer.write_eof()
            assert await reader.read() == b""

    run_on_uvloop(scenario)
