"""What installs a job's packages, run as its pods run it, with a package of this test and without an index."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.workloads.job_cases import manifest_of, pod
from workloads import install_requirements
from workloads.batch import BatchJobArgs, batch_shape
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs, mpi_shape
from workloads.pytorch import PyTorchJobArgs, pytorch_shape

SOURCE = GitSource(repository="https://git.example/team/code.git", branch="main")
CODE = {"source": SOURCE, "requirements": "r.txt"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's code with a package that no image has."""
    wheel = tmp_path / "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("greeting.py", "WORD = 'hello'\n")
        file.writestr("greeting-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        file.writestr("greeting-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("greeting-1.0.dist-info/RECORD", "")
    (tmp_path / "requirements.txt").write_text(f"{wheel}\n", encoding="utf-8")
    return tmp_path


def start(folder: Path, number: str, file: str = "requirements.txt") -> subprocess.CompletedProcess[str]:
    words = [install_requirements.__file__, file, folder / "store", folder / f"link-{number}", number]
    environment = {**os.environ, "ATHANOR_JOB": "job-1", "PIP_NO_INDEX": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    environment.pop("VIRTUAL_ENV", None)
    return subprocess.run(
        [Path(sys.executable).resolve(), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_pod_installs_and_the_others_and_later_jobs_find_it(folder):
    first = start(folder, "0")
    assert first.returncode == 0, first.stderr
    assert "installing" in first.stdout
    again, other = start(folder, "0"), start(folder, "1")
    assert "found in" in again.stdout
    assert "found in" in other.stdout
    for link in ("link-0", "link-1"):
        assert (folder / link / "site-packages" / "greeting.py").read_text(encoding="utf-8") == "WORD = 'hello'\n"
    assert len(list((folder / "store").iterdir())) == 1, "nothing unfinished is left"


def test_what_cannot_be_installed_ends_all_pods(folder, monkeypatch):
    (folder / "requirements.txt").write_text("no-such-package-of-athanor==1\n", encoding="utf-8")
    first = start(folder, "0")
    assert first.returncode != 0
    assert "no-such-package-of-athanor" in first.stderr
    [failed] = (folder / "store").glob("*.failed-job-1")
    monkeypatch.setattr(install_requirements, "PATIENCE_SECONDS", 0)
    with pytest.raises(SystemExit, match="the first pod could not install the packages"):
        install_requirements.wait(failed.with_suffix(""), failed)


def test_a_file_that_is_not_there_is_named(folder):
    assert "other.txt: is not in" in start(folder, "0", "other.txt").stderr


@pytest.mark.parametrize(
    ("args", "shape", "role", "number"),
    [
        (PyTorchJobArgs(program=("a.py",), workers=2, **CODE), pytorch_shape, "worker", "$(VC_TASK_INDEX)"),
        (MPIJobArgs(program=("a",), workers=2, **CODE), mpi_shape, "worker", "$(VC_TASK_INDEX)"),
        (BatchJobArgs(command=("a",), pods=2, **CODE), lambda _, args: batch_shape(args), "pod", "0"),
    ],
)
def test_packages_are_installed_before_the_program_which_imports_them(args, shape, role, number):
    spec = pod(manifest_of(args, lambda name: shape(name, args)), role)
    [step] = [each for each in spec["initContainers"] if each["name"] == "requirements"]
    assert step["args"][-4:] == ["r.txt", "/data/output/.packages", "/tmp/.packages", number]
    assert {"name": "output", "mountPath": "/data/output", "readOnly": False} in step["volumeMounts"]
    [program] = spec["containers"]
    assert "/tmp/.packages/site-packages" in program["command"][2]
