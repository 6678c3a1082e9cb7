"""Real workers with mirrored variables, two together and one alone. Needs tensorflow."""

from __future__ import annotations

import json
import signal

import pytest

from tests.unit.trainer.tf.conftest import Job, arguments, events

pytestmark = pytest.mark.long

PROGRAM = "trainer.tf.multi_worker"
CLUSTER = {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"]}


def test_two_workers_stop_together_lose_one_and_resume_to_the_end(warm_network, data_dir, tmp_path):
    # long enough that the signals below never meet a finished run; the last start shortens it
    endless = Job(warm_network, PROGRAM, CLUSTER, *arguments(data_dir, tmp_path, "--steps", 100_000))
    tasks = [endless.start("worker", 0), endless.start("worker", 1)]
    tasks[0].wait_for(" step step=50 ")
    # only the second gets the signal: the first learns of it through the step that both share
    assert tasks[1].send(signal.SIGTERM) == 143, tasks[1].output
    assert tasks[0].wait() == 143, tasks[0].output
    first, second = (events(tmp_path, rank)[-1] for rank in (0, 1))
    assert first["event"] == second["event"] == "stopped"
    assert first["step"] == second["step"] >= 50

    tasks = [endless.start("worker", 0), endless.start("worker", 1)]
    tasks[0].wait_for(f" resumed step={first['step']} "[1:])
    tasks[0].wait_for(" step step=")
    tasks[1].send(signal.SIGKILL)
    assert tasks[0].wait() == 1, tasks[0].output
    assert "another worker was lost at step" in tasks[0].output
    saved = max(event["step"] for event in events(tmp_path, 0) if event["event"] in ("step", "stopped"))

    last = Job(warm_network, PROGRAM, CLUSTER, *arguments(data_dir, tmp_path, "--steps", max(300, saved + 50)))
    tasks = [last.start("worker", 0), last.start("worker", 1)]
    assert [task.wait() for task in tasks] == [0, 0], [task.output for task in tasks]
    resumed = [[event["step"] for event in events(tmp_path, rank) if event["event"] == "resumed"] for rank in (0, 1)]
    assert resumed == [[first["step"], saved]] * 2
    result = json.loads((tmp_path / "output/r1/result.json").read_text())
    assert result["world"] == {"worker": 2}
    assert result["steps"] == max(300, saved + 50)
    assert result["accuracy"] >= 0.9
    assert (tmp_path / "output/r1/saved_model/saved_model.pb").exists()


def test_one_process_trains_alone_without_tf_config(network, data_dir, tmp_path):
    # a new process, which imports TensorFlow by itself as in a pod
    task = network.run(PROGRAM, *arguments(data_dir, tmp_path))
    assert task.wait() == 0, task.output
    result = json.loads((tmp_path / "output/r1/result.json").read_text())
    assert (result["steps"], result["world"]) == (300, {"worker": 1})
    assert result["accuracy"] >= 0.9
