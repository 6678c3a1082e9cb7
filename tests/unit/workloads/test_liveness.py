"""PyTorchJob's liveness probe: absent unless asked for, and reading the folder that the ranks write to."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from tests.unit.workloads.job_cases import manifest_of, pod
from trainer.common import command_line
from trainer.heartbeat import HeartbeatConfig
from trainer.pytorch.config import parse
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.resources import Resources

PROGRAM = ("-m", "trainer.train", "--data_dir=/d", "--output_dir=/o")


def _worker(**fields) -> dict:
    args = PyTorchJobArgs(**{"program": PROGRAM, "workers": 2, "resources": Resources(), **fields})
    [container] = pod(manifest_of(args, lambda job_name: pytorch_shape(job_name, args)), "worker")["containers"]
    return container


def test_the_probe_reads_the_folder_that_the_trainer_writes_to():
    container = _worker(liveness_probe=True)
    command = [*container.get("command", []), *container.get("args", [])]
    training = parse(command[command.index("trainer.train") + 1 :])
    probe = container["livenessProbe"]["exec"]["command"]
    assert probe[:3] == ["python3", "-m", "trainer.heartbeat"]
    assert command_line.parse(HeartbeatConfig, "trainer.heartbeat", probe[3:]).work_dir == training.work_dir
    # it is enough for it that a node is busy for a minute
    assert container["livenessProbe"]["timeoutSeconds"] >= 60


def test_without_being_asked_for_there_is_none():
    assert "livenessProbe" not in _worker()


def test_an_elastic_worker_has_one_and_its_store_has_none():
    args = PyTorchJobArgs(program=PROGRAM, workers=2, minimum_workers=1, resources=Resources(), liveness_probe=True)
    manifest = manifest_of(args, lambda job_name: pytorch_shape(job_name, args))
    assert "livenessProbe" in pod(manifest, "worker")["containers"][0]
    assert "livenessProbe" not in pod(manifest, "rendezvous")["containers"][0]


def test_a_folder_of_the_programs_own_is_refused():
    with pytest.raises(RefusalError, match=r"program = .*has --work_dir, which liveness_probe sets, too"):
        _worker(program=(*PROGRAM, "--work_dir=/scratch"), liveness_probe=True)
