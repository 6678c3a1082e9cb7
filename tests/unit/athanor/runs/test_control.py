"""When a run can be stopped and resumed, with a cluster of this process."""

from __future__ import annotations

from typing import Any

import pytest

from athanor.runs import control
from athanor.runs.control import resume, stop
from athanor.runs.job import running_pod
from infra.errors import RefusalError


class Cluster:
    """A job whose phase follows the commands, each only when it was given so often."""

    def __init__(self, phase: str, *, starts: int = 0, heeds: int = 1) -> None:
        self.namespace = "team"
        self.phase, self.starts, self.heeds = phase, starts, heeds
        self.commands: list[dict[str, Any]] = []
        self.pods: list[str] = []

    def find(self, kind: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("jobs.batch.volcano.sh", "train-1")
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "uid": "u"},
            "spec": {"maxRetry": 11, "tasks": [{"template": {"spec": {"terminationGracePeriodSeconds": 60}}}]},
            "status": {"state": {"phase": self.phase}, "retryCount": self.starts},
        }

    def create(self, command: dict[str, Any]) -> str:
        self.commands.append(command)
        if [each["action"] for each in self.commands].count(command["action"]) == self.heeds:
            self.phase = {"AbortJob": "Aborted", "ResumeJob": "Pending"}[command["action"]]
        return "command"

    def items(self, kind: str, selector: str) -> list[dict[str, Any]]:
        assert (kind, selector) == ("pods", "volcano.sh/job-name=train-1")
        return [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in self.pods]


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch):
    monkeypatch.setattr(control.time, "sleep", lambda _: None)


def test_a_stopped_run_continues():
    cluster = Cluster("Running")
    stop(cluster, "train", "train-1")
    assert resume(cluster, "train", "train-1") == "Pending"
    assert [command["action"] for command in cluster.commands] == ["AbortJob", "ResumeJob"]
    assert cluster.commands[0]["target"] == {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train-1", "uid": "u", "controller": True,
    }  # fmt: skip


def test_a_command_that_a_restart_swallows_is_repeated():
    cluster = Cluster("Restarting", heeds=2)
    stop(cluster, "train", "train-1")
    assert cluster.phase == "Aborted"


@pytest.mark.parametrize(
    ("phase", "message"), [("Completed", "has ended: Completed"), ("Aborted", "is stopped already")]
)
def test_what_does_not_run_is_not_stopped(phase, message):
    with pytest.raises(RefusalError, match=message):
        stop(Cluster(phase), "train", "train-1")


def test_a_run_that_could_not_be_resumed_is_not_stopped():
    cluster = Cluster("Running", starts=10)
    with pytest.raises(RefusalError, match="was restarted 10 times, the most"):
        stop(cluster, "train", "train-1")
    assert cluster.commands == []


def test_only_a_stopped_run_is_resumed():
    with pytest.raises(RefusalError, match="is not stopped, but Running"):
        resume(Cluster("Running"), "train", "train-1")


def test_a_controller_that_does_nothing_is_named():
    with pytest.raises(RefusalError, match="did not handle AbortJob within 180 s: it is Running"):
        stop(Cluster("Running", heeds=0), "train", "train-1")


def test_a_pod_is_chosen_by_its_number():
    cluster = Cluster("Running")
    with pytest.raises(RefusalError, match="has no running pod"):
        running_pod(cluster, "train-1", 0)
    cluster.pods = ["train-1-worker-10", "train-1-worker-2"]
    assert running_pod(cluster, "train-1", 0)["metadata"]["name"] == "train-1-worker-2"
    with pytest.raises(RefusalError, match="has 2 running pods"):
        running_pod(cluster, "train-1", 2)
