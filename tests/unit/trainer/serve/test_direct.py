"""Which requests a connection answers itself, and that all others, and all that goes wrong, are left to ASGI."""

import asyncio
from collections import Counter

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from tests.tables import each_row
from trainer.serve.buffers import BufferBudget
from trainer.serve.config import LimitsConfig
from trainer.serve.direct import DirectConfig, DirectHttpProtocol
from trainer.serve.http import BODY_DUE, Response

BUDGET = 1 << 20
HEAD = b"POST /v2/models/digits/infer HTTP/1.1\r\n"
SMALL = HEAD + b"content-length: 2\r\n\r\n"
PATIENCE_SECONDS = 60


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data):
        self.written += data

    def pause_reading(self):
        """The test sends no more than it has."""

    def resume_reading(self):
        """As above."""

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True


class Inference:
    """Notes what it is asked and leaves the answer to the test; as ASGI's application it notes requests with bodies."""

    def __init__(self):
        self.asked = []
        self.respond = []
        self.futures = []
        self.left_to_asgi = asyncio.Queue()
        self.refuses = False

    def begin(self, scope, body, target, respond):
        self.asked.append((target, body))
        self.respond.append(respond)
        if self.refuses:
            respond(Response(status=400, body=b"no"), False)
            return None
        future = asyncio.get_running_loop().create_future()
        scope["state"]["client"].expect(future)
        self.futures.append(future)
        return future

    async def __call__(self, scope, receive, send):
        message = await receive()
        await self.left_to_asgi.put((scope, message))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"asgi"})


class Connection:
    """A connection whose client is the test."""

    def __init__(self, **limits):
        self.inference = Inference()
        self.buffers = BufferBudget(BUDGET)
        config = DirectConfig(self.inference, LimitsConfig(**limits), Counter(), self.buffers, shutdown_seconds=1)
        self.state = ServerState()
        self.protocol = DirectHttpProtocol(config, self.state, {})
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def send(self, *parts):
        for part in parts:
            self.protocol.data_received(part)
        await asyncio.sleep(0)

    async def asgi(self):
        return await asyncio.wait_for(self.inference.left_to_asgi.get(), PATIENCE_SECONDS)

    @property
    def held_bytes(self):
        return self.buffers._used_bytes

    async def close(self):
        if not self.transport.closed:
            self.protocol.connection_lost(None)
        await asyncio.gather(*self.state.tasks, return_exceptions=True)


def play(scenario, **limits):
    """Run a scenario on a connection, and see that it leaves nothing in the budget."""

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        connection = Connection(**limits)
        await scenario(connection)
        await connection.close()
        assert not connection.held_bytes

    problems = []
    asyncio.run(run())
    assert not problems


@each_row(
    "parts",
    [
        (SMALL + b"{}",),
        (SMALL, b"{}"),
        (SMALL + b"{", b"}"),
        tuple(bytes([each]) for each in SMALL + b"{}"),
        (HEAD + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n{}",),
    ],
)
def test_a_small_request_is_answered_without_asgi(parts):
    async def scenario(connection):
        await connection.send(*parts)
        [(target, body)] = connection.inference.asked
        assert (target, body) == (("digits", None), b"{}")
        assert connection.held_bytes == 2
        assert connection.state.tasks == set(connection.inference.futures)
        connection.inference.futures[0].set_result([])
        connection.inference.respond[0](Response(status=200, headers=[(b"a", b"b")], body=b"12345"), False)
        await asyncio.sleep(0)
        assert connection.transport.written == b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 5\r\n\r\n12345"
        assert not connection.state.tasks
        assert not connection.held_bytes
        # and the connection goes on
        await connection.send(SMALL + b"[]")
        assert connection.inference.asked[1][1] == b"[]"
        assert connection.inference.left_to_asgi.empty()

    play(scenario)


@each_row(
    ("head", "body"),
    [
        (b"GET /v2/models/digits/infer HTTP/1.1\r\n", b""),
        (b"POST /v2/models/digits/ready HTTP/1.1\r\ncontent-length: 2\r\n", b"{}"),
        (HEAD, b""),
        (HEAD + b"transfer-encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
        (HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n", b"{}"),
        (HEAD + b"content-length: %d\r\n" % (HIGH_WATER_LIMIT + 1), b" " * (HIGH_WATER_LIMIT + 1)),
        (HEAD + b"content-length: %d\r\n" % 10**17, b"{}"),
    ],
    ids=["method", "path", "no length", "chunked", "expect", "large", "huge"],
)
def test_others_are_left_to_asgi(head, body):
    async def scenario(connection):
        await connection.send(head + b"\r\n", body)
        scope, _ = await connection.asgi()
        assert BODY_DUE not in scope["state"]
        assert not connection.inference.asked

    play(scenario)


def test_a_request_beyond_the_budget_is_left_to_asgi():
    async def scenario(connection):
        connection.buffers.take(BUDGET - 1)
        await connection.send(SMALL + b"{}")
        await connection.asgi()
        assert not connection.inference.asked
        connection.buffers.release(BUDGET - 1)

    play(scenario)


def test_a_client_that_does_not_read_is_left_to_asgi():
    async def scenario(connection):
        connection.protocol.pause_writing()
        await connection.send(SMALL + b"{}")
        await asyncio.sleep(0)
        assert not connection.inference.asked
        connection.protocol.resume_writing()
        await connection.asgi()

    play(scenario)


def test_a_body_that_is_late_is_asgis_and_its_time_is_over():
    async def scenario(connection):
        loop = asyncio.get_running_loop()
        await connection.send(SMALL + b"{")
        scope, message = await connection.asgi()
        assert scope["state"][BODY_DUE] <= loop.time()
        assert message == {"type": "http.request", "body": b"{", "more_body": True}
        assert not connection.held_bytes
        await connection.send(b"}")
        assert not connection.inference.asked

    play(scenario, body_timeout_seconds=0.01)


def test_a_client_that_leaves_before_its_body_is_there_is_noticed_by_asgi():
    async def scenario(connection):
        await connection.send(SMALL + b"{")
        connection.protocol.connection_lost(None)
        _, message = await connection.asgi()
        assert message == {"type": "http.disconnect"}
        connection.transport.closed = True

    play(scenario)


@each_row("parts", [(SMALL + b"{}",), (SMALL, b"{}")])
def test_a_client_that_leaves_in_the_turn_of_its_body_is_noticed_by_asgi(parts):
    async def scenario(connection):
        for part in parts:
            connection.protocol.data_received(part)
        connection.protocol.connection_lost(None)
        _, message = await connection.asgi()
        assert message == {"type": "http.disconnect"}
        assert not connection.inference.asked
        connection.transport.closed = True

    play(scenario)


def test_a_client_that_leaves_cancels_what_it_asked():
    async def scenario(connection):
        await connection.send(SMALL + b"{}")
        connection.protocol.connection_lost(None)
        assert connection.inference.futures[0].cancelled()
        await asyncio.sleep(0)
        assert not connection.state.tasks
        connection.transport.closed = True

    play(scenario)


@each_row(("header", "close"), [(b"", True), (b"connection: close\r\n", False)])
def test_the_last_answer_closes_the_connection(header, close):
    async def scenario(connection):
        await connection.send(HEAD + header + b"content-length: 2\r\n\r\n{}")
        connection.inference.futures[0].set_result([])
        connection.inference.respond[0](Response(), close)
        head = connection.transport.written
        assert b"connection: close\r\n" in head
        assert connection.transport.closed
        await asyncio.sleep(0)

    play(scenario)


def test_a_server_that_stops_does_not_wait_for_a_body_without_its_application():
    async def scenario(connection):
        await connection.send(SMALL)
        connection.protocol.shutdown()
        await asyncio.sleep(0)
        assert len(connection.state.tasks) == 1
        await connection.send(b"{}")
        await connection.asgi()
        await asyncio.sleep(0)
        assert b"connection: close\r\n" in connection.transport.written

    play(scenario)


def test_a_refusal_leaves_the_budget_and_pipelined_requests_follow():
    async def scenario(connection):
        connection.inference.refuses = True
        await connection.send((SMALL + b"{}") * 3)
        await connection.asgi()
        await connection.asgi()
        assert len(connection.inference.asked) == 1
        assert connection.transport.written.count(b"HTTP/1.1 400") == 1
        await asyncio.sleep(0)
        assert connection.transport.written.count(b"HTTP/1.1 200") == 2
        assert connection.transport.written.endswith(b"asgi")

    play(scenario)
