"""What installs a job's packages, run as its pods run it, with a package of this test and without an index."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from infra.offers import PackageIndexOffer, PlatformOffers
from tests.unit.workloads.job_cases import PLATFORM, RESOLVED, manifest_of, pod
from workloads import install_requirements
from workloads.batch import BatchJobArgs, batch_shape
from workloads.git_source import GitSource
from workloads.job import job_manifests
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
    failed.touch()  # as if while this one waits: an older one may be of the attempt before
    monkeypatch.setattr(install_requirements, "PATIENCE_SECONDS", 0)
    with pytest.raises(SystemExit, match="the first pod could not install the packages"):
        install_requirements.wait(failed.with_suffix(""), failed)


def test_a_file_that_is_not_there_is_named(folder):
    assert "other.txt: is not in" in start(folder, "0", "other.txt").stderr


def test_what_a_file_includes_counts_and_what_installs_the_jobs_own_code_is_refused(folder):
    (folder / "more").mkdir()
    for name, text in {
        "top.txt": "-r more/a.txt\n--constraint=limits.txt # old ones\n", "limits.txt": "x<2\n",
        "more/a.txt": "a\n-rb.txt\n-c https://x/c.txt\n",
        "more/b.txt": "-r ../top.txt\n./own-1.0-py3-none-any.whl\n../b-1.tar.gz",
    }.items():  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
    files = install_requirements.files_of(folder / "top.txt")
    assert sorted(str(each.relative_to(folder)) for each in files) == [
        "limits.txt",
        "more/a.txt",
        "more/b.txt",
        "top.txt",
    ]
    for line in ("-e .", "--editable=./lib", ".", "../lib[extra]", "file:///source/code", "-r absent.txt"):
        (folder / "more" / "b.txt").write_text(f"x\n{line}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"installs the job's own code|absent.txt: is not there"):
            install_requirements.files_of(folder / "top.txt")


def test_packages_that_no_job_uses_any_more_are_deleted(folder):
    store = folder / "store"
    old = time.time() - install_requirements.KEPT_SECONDS - 60
    for name in ("old", ".0123-killed-pod", "in-use"):
        (store / name / "site-packages").mkdir(parents=True)
        os.utime(store / name, (old, old))
    (store / "0123.failed-job-0").touch()
    os.utime(store / "0123.failed-job-0", (old, old))
    os.utime(store / "in-use")
    install_requirements.prune(store)
    assert [each.name for each in store.iterdir()] == ["in-use"]

    os.utime(store / "in-use", (old, old))
    (store / "in-use").rename(store / install_requirements.key_of((folder / "requirements.txt").read_bytes()))
    begin = time.time()
    assert start(folder, "0").returncode == 0
    [packages] = store.iterdir()
    assert packages.stat().st_mtime >= begin - 1, "a job has begun to use it"


INDEX = PackageIndexOffer(url="http://pypi.example:8081/simple", addresses=("10.64.3.7/32", "internet"), port=8081)


@pytest.mark.parametrize(
    ("index", "given", "variables", "opened"),
    [
        (INDEX, {}, {"PIP_INDEX_URL": INDEX.url, "PIP_TRUSTED_HOST": "pypi.example:8081"}, 2),
        (replace(INDEX, url="https://x/simple"), {}, {"PIP_INDEX_URL": "https://x/simple"}, 2),
        (INDEX, {"env": {"PIP_INDEX_URL": "https://own"}}, {"PIP_INDEX_URL": "https://own"}, 2),
        (INDEX, {"secret_env": {"PIP_INDEX_URL": "https://me:secret@own"}}, {}, 2),
        (INDEX, {"requirements": None}, None, 0),
        (None, {}, {}, 0),
    ],
    ids=["http", "https", "the job's own", "the job's own with a password", "nothing to install", "none"],
)
def test_a_job_that_installs_packages_reaches_the_platforms_index(index, given, variables, opened):
    args = PyTorchJobArgs(program=("a.py",), workers=1, **{**CODE, **given})
    resolved = replace(RESOLVED, platform=replace(PLATFORM, offers=PlatformOffers(package_index=index)))
    manifests = job_manifests("job", "PyTorchJob", args, lambda name, _: pytorch_shape(name, args), resolved)
    steps = [each for each in pod(manifests["job"], "worker")["initContainers"] if each["name"] == "requirements"]
    env = {each["name"]: each.get("value") for step in steps for each in step["env"] if each["name"].startswith("PIP_")}
    assert variables is None or {name: env[name] for name in variables} == variables
    assert "PIP_INDEX_URL" in env or not variables
    rules = manifests["policy"]["spec"]["egress"]
    assert [{"protocol": "TCP", "port": 8081} in rule.get("ports", ()) for rule in rules].count(True) == opened


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
