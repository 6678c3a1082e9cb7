"""Which pods of a job have something to read."""

from __future__ import annotations

import pytest

from athanor.runs.job import readable


def pod(name: str, phase: str, **states: dict) -> dict:
    reported = [{"name": container, "state": state} for container, state in states.items()]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": reported},
    }


ENDED = {"terminated": {"exitCode": 0}}
WAITING = {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("described", "is_readable"),
    [
        (pod("a", "Running", main={"running": {}}), True),
        (pod("a", "Succeeded"), True),
        (pod("a", "Failed"), True),
        (pod("a", "Pending"), False),
        (pod("a", "Pending", main=WAITING), False),
        (pod("a", "Pending", main=ENDED), True),
        (pod("a", "Pending", main=WAITING, sidecar=ENDED), False),
        ({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}, False),
    ],
)
def test_a_pod_has_a_log_when_its_program_has_started(described, is_readable):
    assert readable([described]) == ([described] if is_readable else [])


def test_they_are_in_the_order_of_their_numbers():
    assert [each["metadata"]["name"] for each in readable([pod(f"w-{n}", "Running") for n in (10, 2, 0)])] == [
        "w-0",
        "w-2",
        "w-10",
    ]
