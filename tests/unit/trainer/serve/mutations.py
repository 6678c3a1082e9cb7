"""Requests with random damage against a real server: each is answered or its connection ends, none with a 5xx.

A seeded part runs in `make test`. The whole number by hand:
`python -m tests.unit.trainer.serve.mutations 100000 10000 20000`.
"""

import contextlib
import gzip
import json
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from tests.unit.trainer.serve.conftest import DEADLINE_SECONDS, Repository, Server, infer_document
from tests.unit.trainer.serve.protocol_cases import GRPC_CASES, INFER, RAW

CALL = "/inference.GRPCInferenceService/ModelInfer"
_REOPENED_SECONDS = 5.0
SERVERS_FAULT = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
TOKENS = [
    *(b"\r\n", b"\r\n\r\n", b"\x00", b"\xff", b"{", b"}", b"[", b"]", b",", b'"', b"-1", b"0", b"99999999999999999999"),
    *(b"1e999", b"null", b"true", b"NaN", b"\\ud800", b"\xc3\x28", b"chunked", b"Transfer-Encoding: chunked\r\n"),
    *(b"Content-Length: 5\r\n", b"Inference-Header-Content-Length: 7\r\n", b"HTTP/1.0", b"GET", b"/v2/models/digits"),
    *(
        b'"parameters": {"binary_data_size": 3}',
        b'"shape"',
        b'"datatype"',
        b"INT8",
        b'"classification": 2',
        b'"timeout": 1',
    ),
]


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Damage bytes in one to five places."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(changed) + 1)
        size = chance.choice([1, 2, 8, 64])
        match chance.randrange(6):
            case 0:
                del changed[place : place + size]
            case 1:
                changed[place:place] = chance.choice(TOKENS)
            case 2:
                changed[place : place + size] = chance.choice(TOKENS)
            case 3:
                changed[place:place] = changed[place : place + size]
            case 4:
                del changed[place:]
            case _ if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
    return bytes(changed)


def http_requests() -> list[bytes]:
    """Return requests of every kind, whole."""
    text = json.dumps(infer_document()).encode()
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "parameters": {"binary_data_size": len(RAW)}}
    head = json.dumps({"id": "a", "inputs": [tensor], "outputs": [{"name": "logits"}]}).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:100], text[100:])) + b"0\r\n\r\n"
    packed = gzip.compress(text)
    post = f"POST {INFER} HTTP/1.1\r\nHost: a\r\n".encode()
    return [
        post + b"Content-Length: %d\r\n\r\n%s" % (len(text), text),
        post
        + b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(head), len(head + RAW))
        + head
        + RAW,
        post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        post + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(packed), packed),
        b'POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n{"ready": true}',
        b"GET /v2/models/digits/config HTTP/1.1\r\nHost: a\r\n\r\n",
    ]


def exchange(port: int, content: bytes) -> bytes:
    """Send bytes and no more, and return what comes until the server closes."""
    received = b""
    with _connected(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(content)
        with contextlib.suppress(OSError):  # the server may have closed it already
            connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            received += data
    return received


def _connected(port: int) -> socket.socket:
    """Return a connection; gRPC's port is opened again, within moments, after a path that is not UTF-8."""
    end = time.monotonic() + _REOPENED_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS)
        except ConnectionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def attack_http(server: Server, count: int, seed: int) -> Counter[str]:
    """Send damaged requests; returns how many answers had each status.

    Raises:
        TimeoutError: a connection was neither answered nor closed.
    """
    originals = http_requests()

    def attack(number: int) -> list[str]:
        chance = random.Random(f"{seed} http {number}")
        answer = exchange(server.port, mutate(chance.choice(originals), chance))
        return [status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)] or ["closed"]

    with ThreadPoolExecutor(8) as pool:
        return Counter(status for statuses in pool.map(attack, range(count)) for status in statuses)


def attack_grpc_messages(server: Server, count: int, seed: int) -> Counter[str]:
    """Send damaged messages in whole frames; returns how many calls had each code."""
    originals = [case.message.SerializeToString() for case in GRPC_CASES if case.call == "ModelInfer"]
    with grpc.insecure_channel(server.grpc_address) as channel:
        call = channel.unary_unary(CALL)

        def attack(number: int) -> str:
            chance = random.Random(f"{seed} message {number}")
            try:
                call(mutate(chance.choice(originals), chance), timeout=DEADLINE_SECONDS)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

        with ThreadPoolExecutor(8) as pool:
            return Counter(pool.map(attack, range(count)))


def attack_grpc_frames(server: Server, count: int, seed: int) -> None:
    """Send damaged HTTP/2 frames of a real client's call.

    Raises:
        TimeoutError: a connection stayed open.
    """
    original = _recorded_call(server.grpc_port)

    def attack(number: int) -> None:
        exchange(server.grpc_port, mutate(original, random.Random(f"{seed} frame {number}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attack, range(count)))


def _recorded_call(port: int) -> bytes:
    """Return what a gRPC client sends to connect and call: the bytes that pass through a proxy."""
    sent = bytearray()

    def forward(source: socket.socket, target: socket.socket, copy: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                copy += data
                target.sendall(data)

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as upstream:
            back = threading.Thread(target=forward, args=(upstream, client, bytearray()), daemon=True)
            back.start()
            forward(client, upstream, sent)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = threading.Thread(target=serve, daemon=True)
        proxy.start()
        with grpc.insecure_channel(f"127.0.0.1:{listener.getsockname()[1]}") as channel:
            message = next(case.message for case in GRPC_CASES if case.call == "ModelInfer")
            channel.unary_unary(CALL)(message.SerializeToString(), timeout=DEADLINE_SECONDS)
        proxy.join(DEADLINE_SECONDS)
    return bytes(sent)


def check(server: Server, statuses: Counter[str], codes: Counter[str]) -> None:
    """Fail where the server took the blame, logged an error of its own, or answers no more."""
    assert not [status for status in statuses if status.startswith("5")], statuses
    assert not SERVERS_FAULT & codes.keys(), codes
    # lines of our own begin with the time; a traceback's and those of gRPC's core do not
    assert all(line.startswith("20") for line in server.log), server.log
    status, _, answer = server.request("POST", INFER, infer_document())
    assert (status, answer["outputs"][0]["data"]) == (200, [1.0] * 10)


@contextlib.contextmanager
def own_server(folder: Path) -> Iterator[Server]:
    """Start a server with version 1."""
    repository = Repository(folder / "models")
    repository.configure()
    repository.publish(1)
    with contextlib.closing(Server(repository.path, "--grpc_port=0")) as server:
        server.wait_until_listening()
        server.wait_until("/v2/health/ready")
        yield server


def main(http_count: int, message_count: int, frame_count: int) -> None:
    """Attack a server of its own with so many HTTP requests, gRPC messages and recordings of HTTP/2 frames."""
    with tempfile.TemporaryDirectory() as folder, own_server(Path(folder)) as server:
        statuses = attack_http(server, http_count, seed=1)
        print(f"HTTP: {dict(statuses.most_common())}", flush=True)
        codes = attack_grpc_messages(server, message_count, seed=1)
        print(f"gRPC messages: {dict(codes.most_common())}", flush=True)
        attack_grpc_frames(server, frame_count, seed=1)
        check(server, statuses, codes)
        print("the server answers")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
