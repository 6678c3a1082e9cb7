"""The engine's worst day: killed half-way, locked, its objects gone."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clone import Clone, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def healthy_afterwards(served: Clone) -> Iterator[None]:
    """Every test ends with a stack that works and differs in nothing from its program."""
    yield
    served.pulumi("config", "rm", "athanor:scheduling", check=False)
    served.make("up")
    served.pulumi("preview", "--expect-no-changes")


def with_more_queues(clone: Clone, count: int) -> None:
    """Configure an update that creates `count` queues beside the first and takes long enough to be hit."""
    names = ["training", *(f"queue-{index}" for index in range(count))]
    for index, name in enumerate(names):
        clone.pulumi("config", "set", "--path", f"athanor:scheduling.queues[{index}].name", name)


def queues(clone: Clone) -> set[str]:
    found = {queue["metadata"]["name"] for queue in clone.objects("queues.scheduling.volcano.sh")}
    return found - {"default", "root"}


def test_up_killed_half_way_is_finished_by_the_next_make_up(served: Clone) -> None:
    with_more_queues(served, 5)
    with served.started(".venv/bin/pulumi", "up", "--yes", "--skip-preview", "--stack", "local", "--non-interactive"):
        wait_until(lambda: queues(served) - {"training"}, "the first new queue")
    # the block's end has killed the engine, its providers and the language host

    served.make("up")

    assert queues(served) == {"training", *(f"queue-{index}" for index in range(5))}
    served.pulumi("preview", "--expect-no-changes")
    state = json.loads(served.pulumi("stack", "export"))
    urns = [entry["urn"] for entry in state["deployment"]["resources"]]
    assert len(urns) == len(set(urns))
    assert "pending_operations" not in state["deployment"]


def test_the_lock_of_a_running_engine_is_respected(served: Clone) -> None:
    locks = served.home / "pulumi" / ".pulumi" / "locks"
    with served.started(".venv/bin/pulumi", "up", "--stack", "local", "--yes", "--non-interactive") as engine:
        wait_until(lambda: list(locks.rglob("*.json")), "the lock of the running engine")
        # it would be done before the other one asks
        os.killpg(engine.pid, signal.SIGSTOP)
        printed = served.make("up", check=False)

    assert "currently locked" in printed


def test_interrupted_make_up_continues(served: Clone) -> None:
    served.make("stop")
    with served.started("make", "up") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starting the kubelet" in line or "✓ local cluster" in line:
                break

    printed = served.make("up")

    assert "test accuracy" in printed
