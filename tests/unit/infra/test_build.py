"""What the program spares the SDK: looks at outputs that are left, and debug lines."""

from __future__ import annotations

import asyncio

import pulumi
import pytest
from pulumi.runtime import resource, stack
from pulumi.runtime.settings import SETTINGS

from infra.build import leave_out_debug_lines, wait_for_outputs_at_once

OUTPUTS = 50


@pytest.fixture
def waits(monkeypatch):
    """Count how often the SDK looks at all outputs that are left."""
    monkeypatch.setattr(stack, "asyncio", asyncio)  # as it was, at the end
    wait_for_outputs_at_once()
    looked = []
    wait = asyncio.wait

    def counted(outputs, **options):
        looked.append(len(outputs))
        return wait(outputs, **options)

    monkeypatch.setattr(stack.asyncio, "wait", counted)
    return looked


async def _ends_in_turn(*turns):
    """Wait as the program does for outputs of which each ends some turns of the event loop after its start."""

    async def output(turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    tasks = [asyncio.ensure_future(output(number)) for number in turns]
    SETTINGS.outputs.extend(tasks)
    await stack.wait_for_rpcs()
    return [task.result() for task in tasks]


def test_all_outputs_are_looked_at_once(waits):
    assert asyncio.run(_ends_in_turn(*range(OUTPUTS))) == list(range(OUTPUTS))
    assert waits == [OUTPUTS]


def test_an_output_that_an_output_makes_is_waited_for_too(waits):
    ended = []

    async def later():
        await asyncio.sleep(0)
        ended.append("later")

    async def first():
        SETTINGS.outputs.append(asyncio.ensure_future(later()))

    async def program():
        SETTINGS.outputs.append(asyncio.ensure_future(first()))
        await stack.wait_for_rpcs()

    asyncio.run(program())
    assert ended == ["later"]
    assert waits == [1, 1]


@pytest.mark.usefixtures("waits")
def test_a_failure_does_not_wait_for_the_others():
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("of an output")

    async def program():
        never = asyncio.ensure_future(asyncio.Event().wait())
        SETTINGS.outputs.extend([never, asyncio.ensure_future(fails())])
        try:
            await asyncio.wait_for(stack.wait_for_rpcs(), timeout=60)
        finally:
            never.cancel()
            SETTINGS.outputs.clear()

    with pytest.raises(ValueError, match="of an output"):
        asyncio.run(program())


@pytest.mark.parametrize(("variable", "lines"), [("", []), ("1", ["registering"])])
def test_debug_lines_reach_the_engine_only_where_the_variable_is_set(monkeypatch, variable, lines):
    said = []
    monkeypatch.setattr(pulumi.log, "debug", lambda line, *_: said.append(line))
    monkeypatch.setenv("ATHANOR_SDK_DEBUG", variable)
    leave_out_debug_lines()
    resource.log.debug("registering")
    assert said == lines
