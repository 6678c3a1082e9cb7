"""The engine's worst day: killed half-way, locked, its objects gone."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone


QUEUES = {"training", *(f"queue-{index}" for index in range(5))}


@pytest.fixture
def more_queues(served: Clone) -> Iterator[None]:
    """Configure an update that creates queues and takes long enough to be hit; the next test's takes them away."""
    names = sorted(QUEUES, reverse=True)
    served.configure_local(**{f"scheduling.queues[{index}].name": name for index, name in enumerate(names)})
    yield
    served.pulumi("config", "rm", "athanor:scheduling")


def queues(clone: Clone) -> set[str]:
    names = {queue["metadata"]["name"] for queue in clone.objects("queues")}
    return names - {"default", "root"}


@pytest.mark.usefixtures("more_queues")
def test_up_killed_half_way_is_finished_by_the_next_make_up(served: Clone) -> None:
    with served.started(".venv/bin/pulumi", "up", "--yes", "--skip-preview", "--stack", "local", "--non-interactive"):
        wait_until(lambda: queues(served) - {"training"}, "the first new queue")
    # the block's end has killed the engine, its providers and the language host

    served.make("up")

    assert queues(served) == QUEUES
    served.pulumi("preview", "--expect-no-changes")
    state = json.loads(served.pulumi("stack", "export"))
    urns = [entry["urn"] for entry in state["deployment"]["resources"]]
    assert len(urns) == len(set(urns))
    assert "pending_operations" not in state["deployment"]
    sidecars = [file.name for file in (served.home / "pulumi").rglob("*.attrs")]
    assert not sidecars, "the engine empties such a file before it writes it: a kill then would cost the whole state"


def test_the_lock_of_a_running_engine_is_respected(served: Clone) -> None:
    locks = served.home / "pulumi" / ".pulumi" / "locks"
    with served.started(".venv/bin/pulumi", "up", "--stack", "local", "--yes", "--non-interactive") as engine:
        wait_until(lambda: list(locks.rglob("*.json")), "the lock of the running engine")
        # it would be done before the other one asks
        os.killpg(engine.pid, signal.SIGSTOP)
        printed = served.make("up", check=False)

    assert "currently locked" in printed
    # the engine is gone now, and its lock does not count
    served.make("up")
    assert queues(served) == {"training"}


def test_interrupted_make_up_continues(served: Clone) -> None:
    served.make("stop")
    with served.started("make", "up") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starting the kubelet" in line or "✓ local cluster" in line:
                break

    printed = served.make("up")

    assert "test accuracy" in printed
