"""What the programs say and do before they load TensorFlow, which these tests do without."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.tables import each_row
from tests.unit.trainer.tf.conftest import Job, arguments
from trainer.common import command_line
from trainer.tf import config, multi_worker, parameter_server, run
from trainer.tf.chief import Chief
from trainer.tf.cluster import Cluster
from trainer.training import non_finite

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

CLUSTER = {"chief": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"], "ps": ["missing.invalid:2222"]}
PS, MULTI = "trainer.tf.parameter_server", "trainer.tf.multi_worker"


@pytest.mark.parametrize(
    ("wrong", "role", "message"),
    [
        ((PS, {"worker": ["a:1"], "ps": ["b:1"]}), "worker", "0 tasks of role chief, must be exactly 1"),
        ((PS, {"worker": ["a:1"], "ps": ["b:1"], "chief": ["c:1", "d:1"]}), "ps", "2 tasks of role chief"),
        ((PS, {"worker": ["a:1"], "chief": ["b:1"]}), "chief", "0 tasks of role ps, must be at least 1"),
        ((PS, {"ps": ["a:1"], "chief": ["b:1"]}), "chief", "0 tasks of role worker, must be at least 1"),
        ((MULTI, {"worker": ["a:1"], "ps": ["b:1"]}), "worker", "role 'ps' cannot train mirrored"),
    ],
)
def test_a_cluster_that_cannot_train_is_refused(network, tmp_path, wrong, role, message):
    program, cluster = wrong
    task = Job(network, program, cluster, *arguments(tmp_path, tmp_path)).start(role)
    assert task.wait() == 1
    assert f"{program}: TF_CONFIG: {message}" in task.output
    assert "Fix: " in task.output
    assert "Traceback" not in task.output


def test_parameter_servers_without_tf_config_are_refused(network, tmp_path):
    task = network.run(PS, *arguments(tmp_path, tmp_path))
    assert task.wait() == 1
    assert "TF_CONFIG is not set: parameter servers need a cluster. Fix: " in task.output


def test_a_task_whose_servers_never_come_says_which(network, tmp_path):
    more = ("--init_timeout_seconds", 0.5)
    task = Job(network, PS, CLUSTER, *arguments(tmp_path, tmp_path, *more)).start("worker")
    assert task.wait() == 1
    assert "worker 0: after init_timeout_seconds=0.5 1 tasks cannot be reached" in task.output
    assert "ps 0 (missing.invalid:2222): " in task.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_task_that_waits_for_others_ends_at_once_when_asked_to(network, tmp_path, number):
    job = Job(network, PS, CLUSTER, *arguments(tmp_path, tmp_path, "--init_timeout_seconds", 3600))
    task = job.start("worker")
    task.wait_for("waits for")
    assert task.send(number) == 143


@each_row(
    ("words", "message"),
    [
        (["--num_gpu", "2"], "num_gpu=2: a worker of a parameter server uses at most 1"),
        (["--num_gpu", "-1"], "num_gpu=-1: must be at least 0"),
        (["--steps", "0"], "steps=0: must be at least 1"),
        (["--learning_rate", "0"], "learning_rate=0.0: must be more than 0"),
        (["--momentum", "1"], "momentum=1.0: must be less than 1"),
        (["--run_name", "../x"], "run_name='../x': must be"),
        (["--run_name", "models"], "run_name='models': is the folder of the model repository"),
        (["--mode", "both"], "both"),
    ],
)
def test_wrong_arguments_are_refused_by_name(capsys, words, message):
    with pytest.raises(SystemExit) as caught:
        command_line.parse(config.ParameterServerConfig, PS, ["--data_dir", "d", "--output_dir", "o", *words])
    assert caught.value.code == 2
    # the parser draws a box around the message and breaks its lines
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in said


def make(data_dir: Path, base: Path, **changes) -> config.ParameterServerConfig:
    return config.ParameterServerConfig(data_dir=data_dir, output_dir=base, **changes)


def test_a_run_is_not_resumed_with_other_settings(data_dir, tmp_path):
    run.begin(make(data_dir, tmp_path), shards=2)
    run.begin(make(data_dir, tmp_path, steps=7), shards=1)
    message = r"other settings: learning_rate=0\.5 \(was 0\.02\), mode='sync' \(was 'async'\)\. Fix: "
    with pytest.raises(run.RunError, match=message):
        run.begin(make(data_dir, tmp_path, learning_rate=0.5, mode="sync"), shards=1)
    run.begin(make(data_dir, tmp_path, learning_rate=0.5, run_name="another"), shards=1)


@pytest.mark.parametrize(
    ("batch_size", "message"),
    [(64, "3 workers cannot share it evenly. Fix: a multiple of 3, for example 66"), (1434, "must be at most 1433")],
)
def test_a_batch_that_does_not_fit_is_refused(data_dir, tmp_path, batch_size, message):
    with pytest.raises(run.RunError, match=f"batch_size={batch_size}: {message}"):
        run.begin(make(data_dir, tmp_path, batch_size=batch_size), shards=3)
    assert list(tmp_path.iterdir()) == []


def test_a_chief_that_is_refused_leaves_nothing_behind(data_dir, tmp_path):
    cluster = Cluster(tasks={role: (f"{role}:1",) for role in ("chief", "worker", "ps")}, role="chief", index=0)
    with pytest.raises(run.RunError, match="batch_size=1434: must be at most 1433"):
        Chief(make(data_dir, tmp_path, batch_size=1434, log_dir=tmp_path / "logs"), cluster, stop=None)
    assert list(tmp_path.iterdir()) == []


def test_a_volume_that_cannot_be_written_is_reported(data_dir, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(run.RunError, match=r"output_dir=.*cannot be written.*Fix: "):
        run.begin(make(data_dir, tmp_path / "file"), shards=1)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_not_saved_but_counted(tmp_path, loss):
    for _ in range(2):
        with pytest.raises(run.RunError, match=f"the loss is {loss} at step 5"):
            run.require_finite(loss, 5, remember_in=tmp_path)
    assert non_finite.count(tmp_path) == 2
    with pytest.raises(run.RunError):
        run.require_finite(loss, 5, remember_in=None)
    assert non_finite.count(tmp_path) == 2


def test_the_programs_are_named_as_they_are_started():
    assert (parameter_server.PROGRAM, multi_worker.PROGRAM) == (PS, MULTI)
