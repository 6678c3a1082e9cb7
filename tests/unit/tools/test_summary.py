"""The tables say what Kubernetes says."""

from __future__ import annotations

import pytest
from rich.console import Console

from tools.summary import pod_rows, table


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
def test_a_pods_state_is_the_one_that_matters(pod, state, restarts):
    pod["metadata"]["namespace"] = "athanor"
    [[namespace, name, shown, node, count]] = pod_rows([pod])
    assert (namespace, name, node, count) == ("athanor", "pod-0", "local-node-0", restarts)
    assert state in shown


def test_a_pod_without_a_node_is_shown():
    pod = {"metadata": {"name": "pod-0", "namespace": "athanor"}, "spec": {}, "status": {}}
    assert pod_rows([pod]) == [["athanor", "pod-0", "Unknown", "-", "0"]]


def test_a_table_shows_title_heads_and_cells():
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as shown:
        console.print(table("Pods", ["pod", "state"], [["pod-0", "[green]Ready[/]"]], "and more"))
    text = shown.get()
    for word in ("Pods", "pod", "state", "pod-0", "Ready", "and more"):
        assert word in text
    assert "[green]" not in text
