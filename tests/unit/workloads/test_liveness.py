"""PyTorchJob's liveness probe: absent unless asked for, and reading the folder that the ranks write to."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infra.errors import RefusalError
from infra.run_module import run_module_manifest
from tests.unit.workloads.job_cases import manifest_of, pod
from trainer.pod_modules.athanor_heartbeat import FOLDER, Heartbeat
from trainer.pytorch.config import parse
from workloads.any_image import MODULES
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources

PROGRAM = ("-m", "trainer.train", "--data_dir=/d", "--output_dir=/o")


def _worker(**fields) -> dict:
    args = PyTorchJobArgs(**{"program": PROGRAM, "workers": 2, "resources": Resources(), **fields})
    [container] = pod(manifest_of(args), "worker")["containers"]
    return container


def test_the_probe_reads_the_folder_that_the_trainer_writes_to():
    container = _worker(liveness_probe=True)
    command = [*container.get("command", []), *container.get("args", [])]
    training = parse(command[command.index("trainer.train") + 1 :])
    probe = container["livenessProbe"]["exec"]["command"]
    assert probe == ["python3", "-m", "trainer.heartbeat", f"--work_dir={training.work_dir}"]
    # it is enough for it that a node is busy for a minute
    assert container["livenessProbe"]["timeoutSeconds"] >= 60


def test_the_probe_of_any_other_program_reads_what_athanor_run_writes(tmp_path, monkeypatch):
    container = _worker(program=("train.py", "--work_dir=/its/own"), liveness_probe=True)
    words = [*container["command"], *container.get("args", [])]
    assert [word for word in words if "work_dir" in word] == ["--work_dir=/its/own"]
    command = container["livenessProbe"]["exec"]["command"]

    def probe() -> subprocess.CompletedProcess[str]:
        words = [word.replace(MODULES.path, str(tmp_path / "mounted")) for word in command[1:]]
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert probe().returncode == 0, "a platform of an earlier release has no reader"
    (tmp_path / "mounted").mkdir()
    for name, text in run_module_manifest("team")["data"].items():
        (tmp_path / "mounted" / name).write_text(text)
    (tmp_path / FOLDER.name).mkdir()
    Heartbeat(tmp_path / FOLDER.name, rank=0).expect("a step", -100)
    failed = probe()
    assert (failed.returncode, failed.stderr.partition(" after")[0]) == (1, "rank 0 has been at a step")


def test_without_being_asked_for_there_is_none():
    assert "livenessProbe" not in _worker()


def test_an_elastic_worker_has_one_and_its_store_has_none():
    args = PyTorchJobArgs(program=PROGRAM, workers=2, minimum_workers=1, resources=Resources(), liveness_probe=True)
    manifest = manifest_of(args)
    assert "livenessProbe" in pod(manifest, "worker")["containers"][0]
    assert "livenessProbe" not in pod(manifest, "rendezvous")["containers"][0]


def test_a_folder_of_the_programs_own_is_refused():
    with pytest.raises(RefusalError, match=r"program = .*has --work_dir, which liveness_probe sets, too"):
        _worker(program=(*PROGRAM, "--work_dir=/scratch"), liveness_probe=True)
