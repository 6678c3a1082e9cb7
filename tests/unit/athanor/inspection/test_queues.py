"""The order in which jobs wait is Volcano's."""

from __future__ import annotations

from athanor.inspection.objects import name_of
from athanor.inspection.queues import place_of_new, position, waiting
from tests.unit.athanor.inspection.cluster_objects import group, job, priority_class, snapshot


def test_priority_comes_before_age_and_age_before_uid():
    jobs = [
        job("old", created="2026-11-21T08:00:00Z"),
        job("new", created="2026-11-21T09:00:00Z"),
        job("twin", created="2026-11-21T09:00:00Z"),
        job("urgent", created="2026-11-21T10:00:00Z", spec={"priorityClassName": "high"}),
        job("later", created="2026-11-21T07:00:00Z", spec={"priorityClassName": "low"}),
    ]
    cluster = snapshot(
        jobs=jobs,
        pod_groups=[group(each) for each in reversed(jobs)],
        priority_classes=[priority_class("high", 10), priority_class("low", -10)],
    )
    order = [name_of(each).split("-")[0] for each in waiting(cluster, "training")]
    assert order == ["urgent", "old", "new", "twin", "later"]
    assert position(cluster, group(jobs[1])) == (3, 5)


def test_who_runs_or_waits_elsewhere_is_not_in_the_line():
    running, other, mine = job("running"), job("other", queue="research"), job("mine")
    cluster = snapshot(pod_groups=[group(running, "Running"), group(other), group(mine, "Pending")])
    assert [name_of(each) for each in waiting(cluster, "training")] == [name_of(group(mine))]
    assert position(cluster, group(running, "Running")) is None


def test_a_new_job_comes_after_those_of_its_priority():
    ranked = {name: {"priorityClassName": name} for name in ("high", "low")}
    jobs = [job("urgent", spec=ranked["high"]), job("plain"), job("late", spec=ranked["low"])]
    cluster = snapshot(
        pod_groups=[group(each) for each in jobs],
        priority_classes=[priority_class("high", 10), priority_class("low", -10)],
    )
    places = {name: place_of_new(cluster, "training", name) for name in ("high", "", "low")}
    assert places == {"high": (2, 4), "": (3, 4), "low": (4, 4)}
    assert place_of_new(cluster, "research", "") == (1, 1)
