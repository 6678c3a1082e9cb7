"""What a shadow may answer: anything, of any size, at any time. Each is counted as what it is, and the next is sent."""

import asyncio
import contextlib
import json

import h11
import numpy as np

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import CONFIG, DEADLINE_SECONDS
from trainer.serve import model_config
from trainer.serve.shadow_comparison import Comparer
from trainer.serve.shadow_sender import Failure, Sample, ShadowSender

SPEC = model_config.parse(CONFIG, "digits")
OURS = np.arange(10, dtype=np.float32).reshape(1, 10)
SAMPLE = Sample(
    spec=SPEC,
    body_id="in-body",
    header_id="in-header",
    log_id="in-body",
    inputs=[np.ones((1, 1, 8, 8), np.float32)],
    outputs=[OURS],
    seconds=0.001,
    size=296,
)


def tensor(**changes: object) -> dict:
    plain = {"name": "logits", "datatype": "FP32", "shape": [1, 10], "parameters": {"binary_data_size": 40}}
    return plain | changes


def answer(*outputs: dict, data: bytes = OURS.tobytes(), head: str = "", header_length: object = None) -> bytes:
    """An HTTP answer with these outputs, and `data` behind the JSON."""
    document = json.dumps({"outputs": list(outputs)}).encode()
    length = len(document) if header_length is None else header_length
    lines = f"HTTP/1.1 200 OK\r\ninference-header-content-length: {length}\r\n{head}"
    return f"{lines}content-length: {len(document) + len(data)}\r\n\r\n".encode() + document + data


def plain(status: str, body: bytes, *lines: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines])
    return f"{head}\r\n\r\n".encode() + body


GOOD = answer(tensor())


class Scripted:
    """A server that gives one answer after another, and keeps what it was sent."""

    def __init__(self, *answers: bytes, close_after_each: bool = False):
        self.requests: list[tuple[dict[bytes, bytes], bytes]] = []
        self.targets: list[bytes] = []
        self.connections = 0
        self._answers = list(answers)
        self._close_after_each = close_after_each
        self._tasks: set[asyncio.Task] = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_error):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while self._answers:
                await self._read(reader)
                writer.write(self._answers.pop(0))
                await writer.drain()
                if self._close_after_each:
                    return
            await reader.read()

    async def _read(self, reader):
        connection = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65536)
                if not data:
                    raise ConnectionResetError
                connection.receive_data(data)
            elif isinstance(event, h11.Request):
                headers = dict(event.headers)
                self.targets.append(event.target)
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                self.requests.append((headers, body))
                return


def outcomes_of(server: Scripted, count: int, *, seconds: float = DEADLINE_SECONDS, model: str | None = None):
    """Send so many samples one after another, and return what became of them."""

    async def send_all():
        ended: asyncio.Queue = asyncio.Queue()
        comparer = Comparer(tolerance=0.5, classes=True)
        async with server:
            sender = ShadowSender(server.url, model, seconds, comparer, lambda _, outcome: ended.put_nowait(outcome))
            outcomes = []
            for _ in range(count):
                sender.send(SAMPLE)
                outcomes.append(await asyncio.wait_for(ended.get(), DEADLINE_SECONDS))
            return outcomes

    return asyncio.run(send_all())


def test_a_request_has_the_tensors_and_both_ids():
    server = Scripted(GOOD)
    (outcome,) = outcomes_of(server, 1, model="other")
    assert outcome.comparison.reason is None
    ((headers, body),) = server.requests
    assert server.targets == [b"/v2/models/other/infer"]
    assert headers[b"x-request-id"] == b"in-header"
    length = int(headers[b"inference-header-content-length"])
    document = json.loads(body[:length])
    assert document["id"] == "in-body"
    assert document["parameters"] == {"binary_data_output": True}
    assert body[length:] == np.ones(64, np.float32).tobytes()


# with a name other than GOOD's: what each must count as, and a word of its detail
HOSTILE = {
    "not-http": (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "connection", "RemoteProtocolError"),
    "endless-head": (b"HTTP/1.1 200 OK\r\nx: " + b"a" * (1 << 20), "connection", "RemoteProtocolError"),
    "nothing": (b"", "timeout", "no answer within"),
    "half-a-body": (GOOD[:-1], "timeout", "no answer within"),
    "endless-informational": (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "timeout", "no answer within"),
    "another-protocol": (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n", "connection", "Error"),
    "huge-body": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n" + bytes(2 << 20),
        "answer",
        "answer of more",
    ),
    "refused": (plain("503 Busy", b'{"error": "\x1b[2Jbusy"}'), "status", r'503 {"error": "\x1b[2Jbusy"}'),
    "redirect": (plain("302 Found", b"", "location: http://127.0.0.1:1/"), "status", "302"),
    "not-json": (plain("200 OK", b"\xff\xfe"), "answer", "not valid JSON"),
    "deep-json": (plain("200 OK", b"[" * 500_000), "answer", "not valid JSON"),
    "compressed": (plain("200 OK", b"\x1f\x8b", "content-encoding: gzip"), "answer", "not valid JSON"),
    "large-json": (plain("200 OK", b" " * ((1 << 20) + 1)), "answer", "JSON part of 1048577 bytes"),
    "a-list": (plain("200 OK", b"[]"), "answer", "must be a JSON object"),
    "no-outputs": (plain("200 OK", b"{}"), "answer", "outputs: must be an array"),
    "too-few-outputs": (answer(data=b""), "answer", "'logits' is missing"),
    "unknown-output": (answer(tensor(name="other")), "answer", "must be one of ['logits']"),
    "output-twice": (answer(tensor(), tensor(), data=OURS.tobytes() * 2), "answer", "twice"),
    "no-binary": (answer(tensor(parameters=None, data=[1.0] * 10), data=b""), "answer", "are not binary"),
    "too-few-bytes": (answer(tensor(), data=b"\0" * 39), "answer", "39 bytes remain"),
    "bytes-left": (answer(tensor(), data=b"\0" * 41), "answer", "belong to no output"),
    "another-size": (answer(tensor(parameters={"binary_data_size": 4}), data=b"\0" * 4), "answer", "4 bytes; shape"),
    "negative-size": (answer(tensor(parameters={"binary_data_size": -1})), "answer", "binary_data_size=-1"),
    "length-is-no-number": (answer(tensor(), header_length="1_0"), "answer", "Inference-Header-Content-Length"),
    "length-beyond": (answer(tensor(), header_length=10**9), "answer", "Inference-Header-Content-Length"),
}


@each_row(("sent", "reason", "detail"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_answers_fail_and_the_next_request_succeeds(sent, reason, detail):
    seconds = 0.2 if reason == "timeout" else DEADLINE_SECONDS
    first, second = outcomes_of(Scripted(sent, GOOD), 2, seconds=seconds)
    assert isinstance(first, Failure)
    assert first.reason == reason
    assert detail in first.detail
    assert len(first.detail) < 400
    assert first.detail.isprintable()
    assert second.comparison.reason is None


@each_row(
    "changes",
    [{"shape": [10]}, {"shape": [2**40, 10]}, {"shape": "x" * 1000}, {"datatype": "FP64"}, {"datatype": None}],
)
def test_another_shape_or_type_is_a_difference(changes):
    (outcome,) = outcomes_of(Scripted(answer(tensor(**changes))), 1)
    assert outcome.comparison.reason == "tensor"
    assert outcome.comparison.difference is None
    assert len(outcome.comparison.detail) < 300


def test_connections_are_kept():
    server = Scripted(*[GOOD] * 8 * 3)
    assert all(outcome.comparison.reason is None for outcome in outcomes_of(server, 8 * 3))
    assert server.connections == 8


def test_a_connection_that_was_closed_meanwhile_is_opened_again():
    server = Scripted(*[GOOD] * 16, close_after_each=True)
    assert all(outcome.comparison.reason is None for outcome in outcomes_of(server, 16))


def test_no_connection_is_used_again_in_the_middle_of_an_answer():
    oversized, _, _ = HOSTILE["huge-body"]
    outcomes = outcomes_of(Scripted(*[oversized] * 8, *[GOOD] * 8), 16)
    assert all(isinstance(outcome, Failure) for outcome in outcomes[:8])
    assert all(outcome.comparison.reason is None for outcome in outcomes[8:])


def test_an_address_without_a_server():
    class Gone(Scripted):
        async def __aenter__(self):
            await super().__aenter__()
            self._server.close()
            await self._server.wait_closed()
            return self

    (outcome,) = outcomes_of(Gone(), 1)
    assert outcome.reason == "connection"
