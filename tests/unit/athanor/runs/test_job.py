"""Which pods of a job have something to read."""

from __future__ import annotations

from athanor.runs.job import hindrance, readable
from tests.tables import each_row


def pod(name: str, phase: str, **states: dict) -> dict:
    reported = [{"name": container, "state": state} for container, state in states.items()]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": reported},
    }


ENDED = {"terminated": {"exitCode": 0}}
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
WAITING = {"waiting": {"reason": "PodInitializing"}}


@each_row(
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


@each_row(
    ("pods", "said"),
    [
        ([pod("w-0", "Pending", main=WAITING), {"metadata": {"name": "w-1"}}], ""),
        ([pod("w-10", "Pending", main=PULLING), pod("w-2", "Pending", main=PULLING)], "w-2: ImagePullBackOff"),
        ([pod("w-0", "Running", main={"running": {}}), pod("w-1", "Pending", main=PULLING)], "w-1: ImagePullBackOff"),
    ],
)
def test_what_keeps_a_pod_from_starting_is_named(pods, said):
    assert hindrance(pods) == (f"({said}, `athanor why` says more)" if said else "")


def test_an_init_container_that_cannot_start_keeps_the_pod_from_it():
    described = {"metadata": {"name": "w-0"}, "status": {"initContainerStatuses": [{"name": "a", "state": PULLING}]}}
    assert hindrance([described]).startswith("(w-0: ImagePullBackOff")
