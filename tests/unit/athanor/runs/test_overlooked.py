"""Volcano's controller is reminded of jobs that it has overlooked: of no others, and not at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from athanor.inspection.objects import JOBS, POD_GROUPS
from athanor.inspection.reader import Asked
from athanor.runs import follow as following
from athanor.runs import overlooked
from athanor.runs.control import resume
from athanor.runs.overlooked import Reminder, remind
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import NAMESPACE, group, job, pods

NAME = "my-run-0a1b2c3d"
REFUSED = RefusalError("kubectl", "create", "Error from server (Forbidden): not you", "-")


class Cluster:
    """A job whose pods are created once Volcano's controller has been given so many commands."""

    namespace = NAMESPACE

    def __init__(self, phase: str = "Pending", group_phase: str = "Inqueue", *, heeds: int = 1) -> None:
        self.job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **job(phase=phase)}
        owner = [{"uid": self.job["metadata"]["uid"]}]
        self.pods = pods(self.job)
        for each in self.pods:
            each["metadata"]["ownerReferences"] = owner
        self.group_phase, self.heeds, self.may = group_phase, heeds, True
        self.commands: list[dict] = []
        self.questions = 0
        self.asked = Asked(run=self.run, items=self.items, failure=RefusalError)

    def find(self, _kind: str, _name: str) -> dict:
        return self.job

    def run(self, *words: str) -> str:
        if words[0] == "create":
            if not self.may:
                raise REFUSED
            self.commands.append(json.loads(Path(words[-1]).read_text(encoding="utf-8")))
            return ""
        self.questions += 1
        objects = {JOBS: self.job, POD_GROUPS: group(self.job, self.group_phase)}
        held = objects[words[1]]
        return json.dumps(held) if held["metadata"]["name"] == words[2] else ""

    def items(self, *_: str) -> list[dict]:
        return self.pods if len(self.commands) >= self.heeds else []


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr(overlooked.time, "monotonic", lambda: now[0])
    return now


def test_an_overlooked_job_gets_a_command_that_changes_nothing_else():
    cluster = Cluster()
    assert remind(cluster.asked, NAMESPACE, NAME)
    command = cluster.commands[0]
    assert (command["kind"], command["action"]) == ("Command", "ResumeJob")
    assert command["target"]["name"] == NAME
    assert not remind(cluster.asked, NAMESPACE, NAME), "it has pods now"


@each_row(("phase", "group_phase"), [("Pending", "Pending"), ("Pending", ""), ("Running", "Running")])
def test_a_job_that_waits_or_runs_gets_none(phase, group_phase):
    cluster = Cluster(phase, group_phase)
    assert not remind(cluster.asked, NAMESPACE, NAME)
    assert cluster.commands == []


def test_a_job_that_is_gone_gets_none():
    assert not remind(Cluster().asked, NAMESPACE, "gone-0a1b2c3d")


def test_the_controller_is_reminded_until_there_are_pods_and_not_at_once(clock):
    cluster = Cluster(heeds=2)
    reminder = Reminder(cluster.asked, NAMESPACE, NAME)
    reminded = []
    for _ in range(30):
        if reminder.look():
            reminded.append(clock[0])
        clock[0] += 1
    assert reminded == [105.0, 110.0]


def test_a_job_that_waits_for_hours_is_asked_about_ever_less_often(clock):
    cluster = Cluster(group_phase="Pending")
    reminder = Reminder(cluster.asked, NAMESPACE, NAME)
    for _ in range(3600):
        assert not reminder.look()
        clock[0] += 1
    assert cluster.questions / 2 < 3600 / 50


def test_users_who_may_not_command_leave_it_to_others(clock):
    cluster = Cluster()
    cluster.may = False
    reminder = Reminder(cluster.asked, NAMESPACE, NAME)
    clock[0] += 5
    assert not reminder.look()
    with pytest.raises(RefusalError, match="Forbidden"):
        remind(cluster.asked, NAMESPACE, NAME)


def test_resume_helps_an_overlooked_run_and_refuses_one_that_waits():
    cluster = Cluster()
    assert resume(cluster, "my-run", NAME) == "Pending"
    assert len(cluster.commands) == 1
    with pytest.raises(RefusalError, match="is not stopped, but Pending"):
        resume(Cluster(group_phase="Pending"), "my-run", NAME)


def test_those_who_follow_a_job_remind_the_controller(clock, monkeypatch, capsys):
    cluster = Cluster()

    def look(_: object) -> following._Seen:
        clock[0] += 3
        if cluster.commands:
            cluster.job["status"]["state"]["phase"] = "Aborted"
        return following._Seen(cluster.job, cluster.items())

    monkeypatch.setattr(following._FollowedJob, "__init__", lambda self, *_: object.__setattr__(self, "watches", []))
    monkeypatch.setattr(following._FollowedJob, "look", look)
    monkeypatch.setattr(following, "wait_for_change", lambda *_: None)
    assert following.follow(cluster, NAME) == "Aborted"
    assert capsys.readouterr().err.count("has been reminded") == 1
