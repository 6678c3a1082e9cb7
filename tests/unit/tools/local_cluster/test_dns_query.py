import socket
import struct
import threading
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import pytest

from tools.local_cluster import dns


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[bytes], bytes]], int]]:
    """Return a function that answers one query on loopback with what another function makes of it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        threads: list[threading.Thread] = []

        def start(answer: Callable[[bytes], bytes]) -> int:
            def once() -> None:
                question, client = server.recvfrom(4096)
                server.sendto(answer(question), client)

            threads.append(threading.Thread(target=once))
            threads[0].start()
            return server.getsockname()[1]

        yield start
        for thread in threads:
            thread.join()


def reply(question: bytes, records: list[bytes], *, number: bytes | None = None) -> bytes:
    header = (number or question[:2]) + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0)
    return header + question[12:] + b"".join(records)


def record(kind: int, data: bytes, name: bytes = b"\xc0\x0c") -> bytes:
    return name + struct.pack("!HHIH", kind, 1, 5, len(data)) + data


def test_addresses_are_read(serve) -> None:
    def answer(question: bytes) -> bytes:
        assert b"\x03web\x07default\x00" in question
        alias = record(5, b"\x01x\x00")
        full_name = b"\x03web\x07default\x00"
        return reply(question, [alias, record(1, b"\x0a\x40\x00\x01"), record(1, b"\x0a\x40\x00\x02", full_name)])

    port = serve(answer)
    assert dns.query("127.0.0.1", "web.default.", port=port) == [IPv4Address("10.64.0.1"), IPv4Address("10.64.0.2")]


def test_an_unknown_name_has_no_address(serve) -> None:
    port = serve(lambda question: reply(question, []))
    assert dns.query("127.0.0.1", "nobody", port=port) == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda question: reply(question, [], number=bytes(byte ^ 1 for byte in question[:2])),
        lambda question: question[:5],
        lambda question: reply(question, [record(1, b"\x0a\x40\x00\x01")])[:-9],
        lambda question: reply(question, [record(1, b"\x0a")]),
    ],
    ids=["to another question", "torn header", "torn record", "short address"],
)
def test_nonsense_is_an_error(serve, answer: Callable[[bytes], bytes]) -> None:
    port = serve(answer)
    with pytest.raises(OSError, match="DNS"):
        dns.query("127.0.0.1", "web", port=port)
