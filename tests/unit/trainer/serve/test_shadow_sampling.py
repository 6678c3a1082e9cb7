"""Which requests are for the shadow, and how much of what became of them reaches the log."""

import asyncio
import logging
import math
import time

import numpy as np

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import poll
from tests.unit.trainer.serve.test_shadow_sender import GOOD, OURS, SPEC, Scripted
from trainer.serve.protocol import tensors
from trainer.serve.protocol.infer_request import InferRequest
from trainer.serve.request_log import MAX_ID_CHARACTERS, RequestRecord
from trainer.serve.shadow import MAX_LINES_PER_SECOND, Shadow
from trainer.serve.shadow_config import ShadowConfig

FULL = 1
"""A queue of so many bytes has room for nothing: every request for the shadow is counted as dropped."""


def answer(shadow: Shadow, request_id: str | None = None, outputs: np.ndarray = OURS):
    request = InferRequest(id=request_id, inputs=[np.ones((1, 1, 8, 8), np.float32)], outputs=[], rows=1)
    record = RequestRecord(protocol="http", headers=lambda _: [], began=time.perf_counter(), body_id=request_id)
    shadow.answered(request, record, SPEC, [outputs])


def counted(shadow: Shadow, outcome: str) -> int:
    return sum(count for (name, _), count in shadow.metrics.requests.items() if name == outcome)


async def until_counted(shadow: Shadow, outcome: str, count: int):
    """Look from a thread: the loop has to be free to count."""
    await asyncio.to_thread(poll, lambda: counted(shadow, outcome) == count, f"{count} requests to be {outcome}")


@each_row(("share", "taken"), [(0.25, 2), (1.0, 4), (0.1, 1)])
def test_the_share_is_by_chance(share, taken):
    async def send():
        config = ShadowConfig(shadow_share=share, shadow_queue_bytes=FULL)
        shadow = Shadow(config, "http://127.0.0.1:1", iter([0.0, 0.2499, 0.25, 0.99]).__next__)
        for _ in range(4):
            answer(shadow)
        return counted(shadow, "dropped")

    assert asyncio.run(send()) == taken


@each_row("room", [{"shadow_queue_size": 1}, {"shadow_queue_bytes": 64 * 4 + OURS.nbytes}])
def test_room_comes_back_when_an_answer_was_compared(room):
    async def send():
        async with Scripted(*[GOOD] * 3) as server:
            shadow = Shadow(ShadowConfig(shadow_share=1, **room), server.url)
            for count in (1, 2, 3):
                answer(shadow)
                answer(shadow)
                await until_counted(shadow, "equal", count)
            return counted(shadow, "dropped")

    assert asyncio.run(send()) == 3


def test_text_takes_the_room_of_its_bytes():
    async def send():
        shadow = Shadow(ShadowConfig(shadow_share=1, shadow_queue_bytes=64 * 4 + 4 + 99), "http://127.0.0.1:1")
        answer(shadow, outputs=tensors.array_of([100 * b"a"], (1, 1)))
        return counted(shadow, "dropped")

    assert asyncio.run(send()) == 1


def test_a_long_id_is_cut():
    async def send():
        async with Scripted(GOOD) as server:
            shadow = Shadow(ShadowConfig(shadow_share=1), server.url)
            answer(shadow, "i" * 10_000)
            await until_counted(shadow, "equal", 1)
            return server.requests[0][1]

    body = asyncio.run(send())
    assert b'"id":"' + b"i" * MAX_ID_CHARACTERS + b'"' in body
    assert b"i" * (MAX_ID_CHARACTERS + 1) not in body


def test_differences_do_not_fill_the_log(caplog):
    caplog.set_level(logging.INFO, "trainer.serve.shadow")
    many = 60

    async def send():
        began = time.perf_counter()
        async with Scripted(*[GOOD] * many) as server:
            shadow = Shadow(ShadowConfig(shadow_share=1), server.url)
            for _ in range(many):
                answer(shadow, "one", OURS[:, ::-1])
            await until_counted(shadow, "different", many)
        return time.perf_counter() - began

    seconds = asyncio.run(send())
    lines = [record for record in caplog.records if "differs" in record.message]
    assert 1 <= len(lines) <= (math.ceil(seconds) + 1) * MAX_LINES_PER_SECOND
    assert lines[0].message.startswith("request 'one': the shadow's answer differs (class): output 'logits'")
    assert lines[0].athanor_fields["request_id"] == "one"
    assert lines[0].athanor_fields["difference"] == 9
