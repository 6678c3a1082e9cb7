"""Messages between the server and a model's process: arrays arrive as they were sent, and nothing else is accepted."""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import orjson
import pytest

from trainer.serve import worker_channel


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        np.arange(12, dtype=np.int64).reshape(3, 4).T,
        np.zeros((0, 5), np.float16),
        np.array(7, np.uint8),
        np.array([True, False]),
        np.ones(3_000_000, np.float64),
    ],
    ids=["floats", "not contiguous", "empty", "scalar", "booleans", "more than a socket holds"],
)
def test_arrays_arrive_as_they_were_sent(ends, array):
    ours, theirs = ends
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(worker_channel.send, ours, {"call": "infer"}, [array, array])
        document, arrays = worker_channel.receive(theirs)
        sent.result()
    assert document == {"call": "infer"}
    for received in arrays:
        np.testing.assert_array_equal(received, array, strict=True)
        assert received.flags.writeable
        assert received.flags.aligned


def message(document: dict) -> bytes:
    text = orjson.dumps(document)
    return len(text).to_bytes(4, "little") + text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (message({"arrays": [{"dtype": "<U4", "shape": [1], "size": 16}]}), "must be numbers or text"),
        (message({"arrays": [{"dtype": "|O", "shape": [1], "size": 3}]}) + b"abc", "text: 3 bytes end within"),
        (b"\xff\xff\xff\xff", "a document of 4294967295 bytes"),
        (message({"arrays": [{"dtype": "<f4", "shape": [2], "size": 8}]}) + b"1234", "has ended"),
        (b"", "has ended"),
    ],
    ids=["characters", "no text", "too long", "cut off", "closed"],
)
def test_what_is_not_a_message_is_refused(ends, content, reason):
    ours, theirs = ends
    ours.sendall(content)
    ours.close()
    with pytest.raises(OSError, match=reason):
        worker_channel.receive(theirs)
