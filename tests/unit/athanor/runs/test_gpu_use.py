"""What `athanor watch` says of a run's GPUs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from athanor.runs import watch as module
from athanor.runs.listing import Run
from athanor.runs.series import read_series
from athanor.runs.watch import gpu_use, view
from tests.tables import each_row


def pod(*, started: bool = True) -> dict:
    states = [{"name": "worker", "started": started, "state": {"running": {}}}]
    status = {"phase": "Running", "containerStatuses": states}
    return {"metadata": {"name": "t-worker-0"}, "spec": {"containers": [{"name": "worker"}]}, "status": status}


@pytest.fixture
def cluster(tmp_path):
    """A cluster whose kubectl answers as a script does."""
    program = tmp_path / "kubectl"

    def answering(script: str) -> SimpleNamespace:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return SimpleNamespace(prefix=[str(program)])

    return answering


def test_each_gpu_has_its_use(cluster):
    asked = 'case "$*" in *"-- nvidia-smi --query-gpu=utilization.gpu"*) printf "97\\n3\\n";; esac'
    assert gpu_use(cluster(asked), [pod(started=False), pod()]) == [97, 3]


@each_row("script", ["exit 127", "echo [N/A]", "echo 101", "echo 5; exit 1", "echo error: Forbidden", "echo -5"])
def test_nothing_is_said_where_nobody_knows(cluster, script):
    assert gpu_use(cluster(script), [pod()]) == []


def test_a_pod_that_does_not_answer_holds_up_nothing(cluster, monkeypatch):
    monkeypatch.setattr(module, "_GPU_QUERY_SECONDS", 0.2)
    assert gpu_use(cluster("exec sleep 60"), [pod()]) == []


def test_pods_that_do_not_run_are_not_asked(cluster):
    assert gpu_use(cluster("exit 1"), [pod(started=False), {"metadata": {"name": "a"}}]) == []


def test_it_is_a_line_of_the_view():
    lines = view(Run(run="t", phase="Running", gpus=2), "", [], read_series(""), [97, 3])
    assert lines[1:] == ["  GPUs of the first pod: 97 % 3 %"]
