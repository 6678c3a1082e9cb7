"""Real tasks with TensorFlow: a chief, two workers, a parameter server and an evaluator. Needs tensorflow."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from tests.unit.trainer.tf.conftest import Job, arguments, events
from trainer.training import cifar

pytestmark = pytest.mark.long

PROGRAM = "trainer.tf.parameter_server"
CLUSTER = {
    "chief": ["127.0.0.1:2222"],
    "worker": ["127.0.0.1:2223", "127.0.0.1:2224"],
    "ps": ["127.0.0.1:2225"],
    "evaluator": ["127.0.0.1:2226"],
}
WORLD = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}


def test_asynchronous_training_continues_with_restarted_workers(warm_network, data_dir, tmp_path):
    job = Job(warm_network, PROGRAM, CLUSTER, *arguments(data_dir, tmp_path, "--mode", "async"))
    server, first, second, chief = job.start("ps"), job.start("worker", 0), job.start("worker", 1), job.start("chief")
    chief.wait_for(" step step=50 ")
    # from here on nothing can be computed but by those that come back
    assert second.send(signal.SIGKILL) == -signal.SIGKILL
    assert first.send(signal.SIGTERM) == 143, first.output
    again = [job.start("worker", 0), job.start("worker", 1)]
    assert chief.wait() == 0, chief.output
    assert [task.wait() for task in (server, *again)] == [0, 0, 0], [task.output for task in (server, *again)]

    result = json.loads((tmp_path / "output/r1/result.json").read_text())
    assert (result["mode"], result["world"]) == ("async", WORLD)
    assert result["steps"] >= 300
    assert result["accuracy"] >= 0.9
    assert [event["event"] for event in events(tmp_path, 0)][-2:] == ["evaluated", "finished"]
    assert {event["role"] for event in events(tmp_path, 2)} == {"worker 1"}

    late = job.start("chief")
    assert late.wait() == 0, late.output
    assert events(tmp_path, 0)[-1]["event"] == "already_finished"


def test_synchronous_training_resumes_with_a_restarted_chief_and_is_evaluated(warm_network, data_dir, tmp_path):
    more = ("--mode", "sync", "--steps", 150)
    job = Job(warm_network, PROGRAM, CLUSTER, *arguments(data_dir, tmp_path, *more))
    others = [job.start("ps"), job.start("worker", 0), job.start("worker", 1), job.start("evaluator")]
    chief = job.start("chief")
    chief.wait_for(" step step=50 ")
    assert chief.send(signal.SIGTERM) == 143, chief.output
    stopped = events(tmp_path, 0)[-1]
    assert (stopped["event"], stopped["step"] >= 50) == ("stopped", True)
    assert not (tmp_path / "output/r1/result.json").exists()

    chief = job.start("chief")
    assert chief.wait() == 0, chief.output
    assert [task.wait() for task in others] == [0, 0, 0, 0], [task.output for task in others]
    resumed = [event["step"] for event in events(tmp_path, 0) if event["event"] == "resumed"]
    assert resumed == [stopped["step"]]
    result = json.loads((tmp_path / "output/r1/result.json").read_text())
    assert (result["mode"], result["steps"]) == ("sync", 150)
    assert result["accuracy"] >= 0.9
    lines = [json.loads(line) for line in (tmp_path / "output/r1/evaluation.jsonl").read_text().splitlines()]
    assert lines[-1] == {"step": 150, "accuracy": result["accuracy"]}
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    assert len(list((tmp_path / "output/r1/checkpoints").glob("ckpt-*.index"))) <= 3


def test_synchronous_steps_of_two_workers_equal_those_of_one_big_batch(warm_network, data_dir, tmp_path):
    """And the exported model computes what was trained."""
    task = warm_network.run("tests.unit.trainer.tf.synchronous_steps", data_dir, tmp_path)
    assert task.wait() == 0, task.output
    results = json.loads((tmp_path / "found.json").read_text())
    assert results["moved"] > 0.01, "the steps must change something"
    assert results["difference"] < 1e-5
    assert results["loss_difference"] < 1e-5
    # a shard alone is another step: the comparison above can tell
    assert results["difference_to_one_shard"] > 1e-3

    test = cifar.load(data_dir, "test")
    correct = np.array(results["exported_classes"]) == test.labels
    assert correct.mean() == results["accuracy"]
