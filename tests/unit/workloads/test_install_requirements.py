"""What installs a job's packages, run as its pods run it, with a package of this test and without an index."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.offers import PackageIndexOffer, PlatformOffers
from tests.unit.workloads.job_cases import PLATFORM, RESOLVED, manifest_of, pod
from workloads import install_requirements
from workloads.batch import BatchJobArgs
from workloads.git_source import GitSource
from workloads.job import job_manifests
from workloads.job_secrets import SecretFiles
from workloads.mpi import MPIJobArgs
from workloads.pytorch import PyTorchJobArgs, pytorch_shape

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = GitSource(repository="https://git.example/team/code.git", branch="main")
CODE = {
    "source": SOURCE,
    "requirements": "r.txt",
    "env": {"PIP_CERT": "/secrets/ca/ca.crt"},
    "secret_files": (SecretFiles(secret="company-ca", path="/secrets/ca"),),
}


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
    words = [install_requirements.__file__, file, folder / "store", folder / f"link-{number}"]
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


def test_what_cannot_be_installed_ends_the_pod_that_installs(folder):
    (folder / "requirements.txt").write_text("no-such-package-of-athanor==1\n", encoding="utf-8")
    first = start(folder, "0")
    assert first.returncode != 0
    assert "no-such-package-of-athanor" in first.stderr
    assert [each.suffix for each in (folder / "store").glob("[!.]*")] == [".failed-job-1"]


class Others:
    """What the other pods do while this one waits: a step each time that it looks again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
        self.steps, self.installs = list(steps), 0
        self.now = 0.0
        monkeypatch.setattr(install_requirements.time, "sleep", self.sleep)
        monkeypatch.setattr(install_requirements.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(install_requirements, "install", self.install)

    def sleep(self, _seconds: float) -> None:
        self.now += 100.0
        if self.steps:
            self.steps.pop(0)()

    def install(self, _file: Path, packages: Path, *_: object) -> None:
        self.installs += 1
        packages.mkdir()


def test_of_pods_that_start_in_any_order_one_installs(tmp_path, monkeypatch):
    packages, failed, mark = (tmp_path / name for name in ("0123", "0123.failed-job-1", "0123.installing"))
    file = tmp_path / "r.txt"
    failed.touch()
    os.utime(failed, (time.time() - 60,) * 2)  # of the attempt before

    def wait(*steps: Callable[[], object], held_by: str = "worker-1") -> int:
        mark.write_text(held_by, encoding="utf-8")
        others = Others(monkeypatch, *steps)
        install_requirements.install_once(file, packages, failed)
        return others.installs

    def alive() -> None:
        os.utime(mark, (time.time(), mark.stat().st_mtime + 9))

    assert wait(alive, alive, alive, packages.mkdir) == 0
    packages.rmdir()
    assert wait() == 1, "the other one is gone"
    packages.rmdir()
    assert wait(held_by=platform.node()) == 1, "this one began before it was started again"
    assert not mark.exists()
    packages.rmdir()
    with pytest.raises(SystemExit, match="another pod could not install the packages"):
        wait(failed.unlink, failed.touch)
    with pytest.raises(SystemExit, match="has not installed the packages within 1800 s"):
        wait(*[alive] * 30)


def test_who_installs_shows_that_it_is_there(folder, monkeypatch):
    monkeypatch.setattr(install_requirements, "_BEAT_SECONDS", 0.1)
    monkeypatch.setattr(install_requirements.sys, "executable", str(folder / "slow"))
    (folder / "slow").write_text("#!/bin/sh\nexec sleep 1\n", encoding="utf-8")
    (folder / "slow").chmod(0o755)
    beats: list[object] = []
    monkeypatch.setattr(install_requirements.os, "utime", lambda *words: beats.append(words))
    mark = folder / "mark"
    install_requirements.install(folder / "r.txt", folder / "new", folder / "failed", mark)
    assert (mark.read_text(encoding="utf-8"), set(beats)) == (platform.node(), {(mark,)})


def test_a_file_that_is_not_there_is_named(folder):
    assert "other.txt: is not in" in start(folder, "0", "other.txt").stderr


def test_what_a_file_includes_counts_and_what_installs_the_jobs_own_code_is_refused(folder):
    (folder / "more").mkdir()
    (folder / "wheels").mkdir()
    for name in ("own-1.0-py3-none-any.whl", "b-1.tar.gz", "c-1.zip", "wheels/d.whl", "wheels/readme", "more/e.whl"):
        (folder / name).touch()
    for name, text in {
        "top.txt": "-r more/a.txt\n--constraint=limits.txt # old ones\n-f wheels", "limits.txt": "x<2\n",
        "more/a.txt": "a\n-rb.txt\n-c https://x/c.txt\n-r 'two words.txt'\n-f https://x/y\n-e git+https://x/y",
        "more/b.txt": "-r ../top.txt\n./own-1.0-py3-none-any.whl[all] ; python_version > '3'\n/image/z.whl",
    }.items():  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
    windows = "c @ file:c-1.zip --hash=sha256:0\r\nb-1.tar.gz\r\nx @ https://x/y.whl\r\n-c \\\r\n ../limits.txt"
    (folder / "more" / "two words.txt").write_text(windows, encoding="utf-16")
    files = install_requirements.files_of(folder / "top.txt", folder)
    assert sorted(str(each.relative_to(folder)) for each in files) == [
        *("b-1.tar.gz", "c-1.zip", "limits.txt", "more/a.txt", "more/b.txt", "more/two words.txt"),
        *("own-1.0-py3-none-any.whl", "top.txt", "wheels/d.whl"),
    ]
    for line in (
        *("-e .", "--editable=./lib", ".", "../lib[extra]", "file:///source/code", "-r absent.txt", "-e lib[a]"),
        *("lib/part", "lib @ file://${PWD}/lib", "-e 'my lib'", "./absent.whl"),
    ):
        (folder / "more" / "b.txt").write_text(f"\ufeffx\n{line}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"installs the job's own code|absent\.\w+: is not there"):
            install_requirements.files_of(folder / "top.txt", folder)


def test_another_content_of_a_wheel_of_the_same_name_is_another_folder(folder):
    files = install_requirements.files_of(folder / "requirements.txt", folder)
    before = install_requirements.key_of(files)
    assert install_requirements.key_of(files) == before
    files[1].write_bytes(files[1].read_bytes() + b"\0")
    assert install_requirements.key_of(files) != before


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
    files = install_requirements.files_of(folder / "requirements.txt", folder)
    (store / "in-use").rename(store / install_requirements.key_of(files))
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
    ("args", "role"),
    [
        (PyTorchJobArgs(program=("a.py",), workers=2, **CODE), "worker"),
        (MPIJobArgs(program=("a",), workers=2, **CODE), "worker"),
        (BatchJobArgs(command=("a",), pods=2, **CODE), "pod"),
    ],
)
def test_packages_are_installed_before_the_program_which_imports_them(args, role):
    spec = pod(manifest_of(args), role)
    [step] = [each for each in spec["initContainers"] if each["name"] == "requirements"]
    assert step["args"][-3:] == ["r.txt", "/data/output/.packages", "/tmp/.packages"]
    assert {"name": "output", "mountPath": "/data/output", "readOnly": False} in step["volumeMounts"]
    assert {"name": "PIP_CERT", "value": "/secrets/ca/ca.crt"} in step["env"]
    assert "/secrets/ca" in {mount["mountPath"] for mount in step["volumeMounts"]}, "the authority of a company's index"
    [program] = spec["containers"]
    assert "/tmp/.packages/site-packages" in program["command"][2]
