"""The tables say what Kubernetes says."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from tools.summary import job_rows, pod_rows, table


def _pod(**status: object) -> dict:
    return {
        "metadata": {"name": "pod-0"},
        "spec": {"nodeName": "local-node-0"},
        "status": {"phase": "Running", **status},
    }


READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
RESTARTS = [{"restartCount": 2}, {"restartCount": 1}]


@pytest.mark.parametrize(
    ("pod", "state", "restarts"),
    [
        (_pod(conditions=READY, containerStatuses=RESTARTS), "Ready", "3"),
        (_pod(conditions=[{"type": "Ready", "status": "False"}]), "Running, not ready", "0"),
        (_pod(), "Running, not ready", "0"),
        (_pod(phase="Succeeded"), "Succeeded", "0"),
        ({**_pod(), "metadata": {"name": "pod-0", "deletionTimestamp": "now"}}, "Terminating", "0"),
    ],
)
def test_a_pods_state_is_the_one_that_matters(kubectl, fake_program, pod, state, restarts):
    fake_program.answer("get pods -n athanor", json.dumps({"items": [pod]}))
    [[namespace, name, shown, node, count]] = pod_rows(kubectl, ["athanor"])
    assert (namespace, name, node, count) == ("athanor", "pod-0", "local-node-0", restarts)
    assert state in shown


def test_a_pod_without_a_node_is_shown(kubectl, fake_program):
    pod = {"metadata": {"name": "pod-0"}, "spec": {}, "status": {}}
    fake_program.answer("get pods", json.dumps({"items": [pod]}))
    assert pod_rows(kubectl, ["athanor"]) == [["athanor", "pod-0", "Unknown", "-", "0"]]


def test_a_jobs_row_counts_its_pods(kubectl, fake_program):
    job = {
        "metadata": {"name": "train-0"},
        "spec": {"queue": "training"},
        "status": {"state": {"phase": "Running"}, "retryCount": 1},
    }
    new = {**job, "metadata": {"name": "new-0"}, "status": {}}
    fake_program.answer("get jobs.batch.volcano.sh", json.dumps({"items": [job, new]}))
    pods = [_pod(), _pod(), _pod(phase="Succeeded")]
    fake_program.answer("-l volcano.sh/job-name=train-0", json.dumps({"items": pods}))
    fake_program.answer("-l volcano.sh/job-name=new-0", json.dumps({"items": []}))
    assert job_rows(kubectl, "athanor") == [
        ["train-0", "Running", "2 running, 1 succeeded", "training", "1"],
        ["new-0", "accepted", "none yet", "training", "0"],
    ]


def test_a_table_shows_title_heads_and_cells():
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as shown:
        console.print(table("Pods", ["pod", "state"], [["pod-0", "[green]Ready[/]"]]))
    text = shown.get()
    for word in ("Pods", "pod", "state", "pod-0", "Ready"):
        assert word in text
    assert "[green]" not in text
