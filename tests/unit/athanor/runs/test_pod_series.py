"""The steps in a pod's log, with a kubectl of this test, also where the pod's node hangs."""

from __future__ import annotations

import json

import pytest

from athanor.runs import pod_series as module
from athanor.runs.pod_series import series_if_any, series_of
from athanor.runs.watch import watch
from infra.errors import RefusalError

POD = {
    "metadata": {"name": "lr-1-worker-0"},
    "spec": {"containers": [{"name": "worker"}], "nodeName": "gpu-7"},
    "status": {"phase": "Running"},
}
JOB = {
    "metadata": {"name": "lr-1", "creationTimestamp": "2026-01-01T10:00:00Z"},
    "spec": {"tasks": []},
    "status": {"state": {"phase": "Running"}},
}


class Cluster:
    """One with a job of one pod, whose kubectl is a script."""

    namespace, asked = "team", None

    def __init__(self, folder, script: str) -> None:
        program = folder / "kubectl"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        self.prefix = [str(program)]

    def find(self, *_: str) -> dict:
        return JOB

    def items(self, *_: str) -> list[dict]:
        return [POD]


def test_the_lines_of_the_log_are_its_steps(tmp_path):
    script = """case "$*" in "logs --timestamps --tail=5000 --container=worker lr-1-worker-0")
echo '2026-01-01T10:00:00.5Z {"step": 2, "loss": 0.5}' ;; esac"""
    assert series_of(Cluster(tmp_path, script), "lr-1").step == 2


def test_a_node_that_hangs_is_named_and_holds_up_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    cluster = Cluster(tmp_path, "exec sleep 60")
    with pytest.raises(RefusalError, match=r"pod = 'lr-1-worker-0': has a log that gpu-7 did not send in 0\.2 s"):
        series_of(cluster, "lr-1")
    assert series_if_any(cluster, "lr-1").step is None
    assert watch(cluster, "lr", "lr-1", as_json=True) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["phase"], described["step"], described["pods"][0]["node"]) == ("Running", None, "gpu-7")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("error: You must be logged in to the server (Unauthorized)", "You must be logged in"),
        ("Error from server: Get https://10.0.0.7:10250: dial tcp: connection refused", "connection refused"),
        ("", "kubectl ended with 1"),
    ],
)
def test_a_log_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path, said, reason):
    script = f"""echo '2026-01-01T10:00:00.5Z {{"step": 2, "loss": 0.5}}'; echo '{said}' >&2; exit 1"""
    with pytest.raises(RefusalError, match=f"pod = 'lr-1-worker-0': has a log that cannot be read: .*{reason}"):
        series_of(Cluster(tmp_path, script), "lr-1")


@pytest.mark.parametrize(
    "said",
    [
        'Error from server (NotFound): pods "lr-1-worker-0" not found',
        'Error from server (BadRequest): container "worker" in pod "lr-1" is waiting to start: PodInitializing',
    ],
)
def test_a_pod_that_is_gone_or_does_not_run_yet_has_printed_nothing(tmp_path, said):
    assert series_of(Cluster(tmp_path, f"echo '{said}' >&2; exit 1"), "lr-1").step is None
