"""When a waiting job can start, from what is known of the ends of others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from athanor.inspection import estimate
from athanor.inspection.estimate import DEADLINE, STEPS, End, by_steps, deadline, running_jobs, start
from athanor.inspection.why import why
from tests.unit.athanor.inspection.cluster_objects import (
    NOW,
    case,
    gpu_node,
    gpu_spec,
    group,
    job,
    pod,
    pods,
    queue,
    snapshot,
    task,
)

BEGUN = "2026-11-21T12:00:05Z"  # half an hour before NOW


def small(name: str, gpus: int = 4, **more):
    return job(name, task("worker", 1, gpu_spec(gpus)), phase="Running", **more)


def running(of, **more):
    return pods(of, "a10-0", startTime=BEGUN, **more)


def limited(of, seconds: int):
    """A job with a deadline, and its pods."""
    of["spec"]["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"] = seconds
    return of, running(of)


def end_of(of, minutes: float, by: str = STEPS) -> End:
    return End(
        job=of["metadata"]["name"], name=of["metadata"]["labels"]["athanor.dev/job"],
        at=NOW + timedelta(minutes=minutes), by=by,
    )  # fmt: skip


@pytest.fixture
def two():
    return small("first"), small("second")


def waiting(two, gpus: int, **fields):
    """A job that waits for GPUs of a node of eight, on which two others have four each."""
    mine = job("mine", task("worker", 1, gpu_spec(gpus)))
    taken = [each for other in two for each in running(other)]
    return case(mine, jobs=list(two), pods=[*fields.pop("pods", taken)], nodes=[gpu_node("a10-0", gpus=8)], **fields)


def test_a_job_starts_when_enough_others_have_ended(two):
    situation = waiting(two, 8)
    cause = why(situation).cause
    ends = [end_of(two[1], 20), end_of(two[0], 10, DEADLINE)]
    begin = start(situation, cause, ends)
    assert begin is not None
    assert begin.at == NOW + timedelta(minutes=20)
    assert begin.after == ["first", "second"]
    assert begin.latest
    first = start(waiting(two, 4), cause, ends)
    assert first is not None
    assert (first.after, first.at) == (["first"], NOW + timedelta(minutes=10))


def test_what_is_not_enough_is_listed_and_no_time_is_named(two):
    begin = start(waiting(two, 8), "no-room", [end_of(two[0], 10)])
    assert begin is not None
    assert (begin.at, begin.after) == (None, [])
    assert [end.name for end in begin.ends] == ["first"]


def test_of_two_ends_of_one_job_the_earlier_one_counts(two):
    begin = start(waiting(two, 4), "no-room", [end_of(two[0], 60, DEADLINE), end_of(two[0], 5)])
    assert begin is not None
    assert [(end.at, end.by) for end in begin.ends] == [(NOW + timedelta(minutes=5), STEPS)]
    assert not begin.latest


def test_the_queues_limit_counts_like_room(two):
    limit = queue(capability={"nvidia.com/gpu": "8"})
    situation = waiting(two, 8, queues=[limit])
    assert why(situation).cause == "queue-limit"
    begin = start(situation, "queue-limit", [end_of(two[0], 10), end_of(two[1], 20)])
    assert begin is not None
    assert begin.at == NOW + timedelta(minutes=20)


def test_jobs_that_come_first_are_counted(two):
    older = job("older", task("worker", 1, gpu_spec(4)), created="2026-11-21T09:00:00Z")
    mine = job("mine", task("worker", 1, gpu_spec(8)))
    situation = waiting(two, 8, pod_groups=[group(older), group(mine)])
    begin = start(situation, "no-room", [])
    assert begin is not None
    assert begin.ahead == 1


@pytest.mark.parametrize("cause", ["running", "image", "completed"])
def test_a_job_that_waits_for_nobody_has_no_start(two, cause):
    assert start(waiting(two, 8), cause, [end_of(two[0], 10)]) is None


def test_with_less_than_the_whole_cluster_known_no_time_is_named(two):
    situation = waiting(two, 8, unreadable=("pods of other namespaces",))
    begin = start(situation, "no-room", [end_of(two[0], 10), end_of(two[1], 20)])
    assert begin is not None
    assert begin.at is None
    assert len(begin.ends) == 2


def test_a_deadline_counts_for_every_start_that_is_left():
    mine, its_pods = limited(job("mine", task("worker", 2, gpu_spec(1)), phase="Running", spec={"maxRetry": 1}), 3600)
    end = deadline(snapshot(jobs=[mine], pods=its_pods), mine)
    assert end is not None
    assert (end.at, end.by) == (NOW + timedelta(minutes=30), DEADLINE)
    again, its_pods = limited(job("again", phase="Running", spec={"maxRetry": 3}, status={"retryCount": 1}), 3600)
    end = deadline(snapshot(jobs=[again], pods=its_pods), again)
    assert end is not None
    assert end.at == NOW + timedelta(minutes=90)


def test_without_a_deadline_of_every_pod_there_is_none():
    mine = small("mine")
    assert deadline(snapshot(jobs=[mine], pods=running(mine)), mine) is None
    half, its_pods = limited(job("half", task("worker", 2, gpu_spec(1)), phase="Running"), 3600)
    other = pod(half, index=1, node="a10-0")
    assert deadline(snapshot(jobs=[half], pods=[its_pods[0], other]), half) is None


def test_running_jobs_are_those_that_hold_something(two):
    mine = job("mine")
    cluster = snapshot(jobs=[*two, mine], pods=[*running(two[0]), *pods(mine)])
    assert running_jobs(cluster) == [two[0]]


def test_steps_left_give_an_end(two):
    assert by_steps(two[0], 90.0, NOW) == end_of(two[0], 1.5)
    assert by_steps(two[0], 0, NOW).by == estimate.STEPS
