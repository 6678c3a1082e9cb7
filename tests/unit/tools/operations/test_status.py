"""The tables of `make status` as a person sees them."""

from rich.text import Text

from tests.unit.athanor.inspection.cluster_objects import NOW, drawn, gpu_spec, job, pod, pods, snapshot, task
from tools.operations.status import status_tables


def test_status_shows_all_of_it():
    run = job("run", phase="Running")
    system = {"metadata": {"name": "dns", "namespace": "kube-system"}, "spec": {}, "status": {"phase": "Running"}}
    cluster = snapshot(jobs=[run], pods=[*pods(run, "a10-0"), system])
    text = drawn(status_tables(cluster, NOW))
    for word in ("Jobs", "PyTorchJob", "2h30m", "Pods", "run-0a1b2c3d-worker-1", "GPUs by queue", "GPUs by node"):
        assert word in text
    assert "dns" not in text
    assert "dns" in drawn(status_tables(cluster, NOW, ["kube-system"]))


def test_very_many_pods_are_counted_instead_of_listed():
    run = job("run", task("worker", 300, gpu_spec(1)))
    run_pods = [pod(run, index=index, node="a10-0") for index in range(299)] + [pod(run, index=299)]
    text = drawn(status_tables(snapshot(jobs=[run], pods=run_pods), NOW))
    assert text.count("-worker-") == 1
    assert "run-0a1b2c3d-worker-299" in text
    assert "299 more are running or have ended normally" in text


def test_the_state_of_pods_that_run_has_a_colour():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    run = job("run", task("worker", 1, gpu_spec(1)))
    [_, listed, *_] = status_tables(snapshot(jobs=[run], pods=pods(run, "a10-0", **ready)), NOW)
    [cell] = listed.columns[2].cells
    assert (str(cell), cell.style if isinstance(cell, Text) else "") == ("Ready", "green")
