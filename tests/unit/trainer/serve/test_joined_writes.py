"""What leaves together, and that nothing stays behind."""

from __future__ import annotations

import asyncio
from typing import cast

from tests.tables import each_row
from trainer.serve.joined_writes import JoinedWrites


class Transport:
    """Keeps what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, ...] | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append((data,))

    def writelines(self, parts: list[bytes]) -> None:
        self.calls.append(tuple(parts))

    def close(self) -> None:
        self.calls.append("close")

    def is_closing(self) -> bool:
        return "close" in self.calls


def _writes(*turns: tuple[bytes | str, ...]) -> list[tuple[bytes, ...] | str]:
    """Write what each turn of the event loop has, where "close" stands for that, and return what the transport saw."""

    async def write_all() -> None:
        joined = JoinedWrites(cast("asyncio.Transport", transport), asyncio.get_running_loop())
        for turn in turns:
            for data in turn:
                joined.close() if isinstance(data, str) else joined.write(data)
            await asyncio.sleep(0)
        assert joined.is_closing() == transport.is_closing()

    transport = Transport()
    asyncio.run(write_all())
    return transport.calls


@each_row(
    ("turns", "calls"),
    [
        ([(b"head", b"body")], [(b"head", b"body")]),
        ([(b"head",), (b"body",)], [(b"head",), (b"body",)]),
        ([(b"head", b"body", b"next head"), (b"next body",)], [(b"head", b"body"), (b"next head",), (b"next body",)]),
        ([(b"head", b"")], [(b"head", b"")]),
        ([(b"",), (b"head",)], [(b"head",)]),
        ([(b"refusal", "close")], [(b"refusal",), "close"]),
        ([(b"head", b"body", "close")], [(b"head", b"body"), "close"]),
    ],
    ids=["both", "two turns", "pipelined", "no body", "nothing", "held when closed", "closed"],
)
def test_two_writes_of_a_turn_leave_together(
    turns: list[tuple[bytes | str, ...]], calls: list[tuple[bytes, ...] | str]
) -> None:
    assert _writes(*turns) == calls


def test_what_was_held_leaves_before_what_is_sent_at_once() -> None:
    async def send() -> None:
        joined = JoinedWrites(cast("asyncio.Transport", transport), asyncio.get_running_loop())
        joined.write(b"first")
        joined.send(b"head", b"body")
        await asyncio.sleep(0)
        joined.send(b"alone")

    transport = Transport()
    asyncio.run(send())
    assert transport.calls == [(b"first", b"head", b"body"), (b"", b"alone")]


def test_what_went_ahead_is_not_sent_twice() -> None:
    async def answer_both_ways() -> None:
        joined = JoinedWrites(cast("asyncio.Transport", transport), asyncio.get_running_loop())
        joined.send_ahead(b"ab")
        joined.write(b"abc")
        joined.send_ahead(b"de")
        joined.send(b"def", b"body")
        joined.write(b"abc")
        await asyncio.sleep(0)

    transport = Transport()
    asyncio.run(answer_both_ways())
    assert b"".join(b"".join(call) for call in transport.calls if isinstance(call, tuple)) == b"abcdefbodyabc"
