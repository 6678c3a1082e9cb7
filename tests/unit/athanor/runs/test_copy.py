"""`athanor copy`: what its two paths mean, and through which pod it goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from athanor.runs import copy as module
from athanor.runs import files as files_module
from athanor.runs.copy import Copy, Place, read_copy, run_copy
from athanor.runs.transfer import NoGreetingError
from infra.errors import RefusalError
from tests.tables import each_row


def _job(run: str) -> tuple[str, str]:
    if run != "train-1":
        raise RefusalError("run", run, "is not in your Pulumi backend", "`athanor runs` lists yours")
    return "train-1-abc", "train-1-abc-fresh"


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    (tmp_path / "cifar").mkdir()
    (tmp_path / "a:b").write_text("x")
    monkeypatch.chdir(tmp_path)


@each_row(
    ("source", "target", "place"),
    [
        ("cifar", "data:own/cifar", "/data/data/own/cifar"),
        ("cifar", "output:", "/data/output"),
        ("data:a:b", ".", "/data/data/a:b"),
        ("./a:b", "data:a", "/data/data/a"),
        ("train-1:model.pt", "model.pt", "/data/output/train-1-abc-fresh/model.pt"),
        ("train-1:", "all", "/data/output/train-1-abc-fresh"),
    ],
)
def test_places(source, target, place):
    asked = read_copy(source, target, _job, replace=False)
    remote = asked.source if isinstance(asked.source, Place) else asked.target
    assert isinstance(remote, Place)
    assert remote.path == place
    assert (remote.run, remote.job_name) == (("train-1", "train-1-abc") if "train-1" in source else (None, ""))


@each_row(
    ("source", "target", "message"),
    [
        ("cifar", "there", "exactly one of source and target must be in a volume"),
        ("data:a", "output:b", "exactly one of source and target"),
        ("data:/etc", ".", "'data:/etc': would leave the volume"),
        ("cifar", "data:../output/models", "would leave the volume"),
        ("train-1:../other", ".", "would leave the volume"),
        ("gone", "data:a", "source = 'gone': does not exist"),
        ("train-2:a", ".", "run = 'train-2': is not in your Pulumi backend"),
    ],
)
def test_what_is_refused(source, target, message):
    with pytest.raises(RefusalError) as refusal:
        read_copy(source, target, _job, replace=False)
    assert message in str(refusal.value)


class Cluster:
    """A cluster in which each created job has a pod that starts after a while."""

    prefix = ("kubectl",)

    def __init__(self) -> None:
        self.pods: list[dict] = []
        self.jobs: list[str] = []
        self.deleted: list[str] = []
        self.phase = "Pending"

    @staticmethod
    def pod(name: str, *, started: bool = True) -> dict:
        state = {"running": {}} if started else {"waiting": {}}
        states = [{"name": "worker", "started": started, "state": state}]
        spec = {"containers": [{"name": "worker"}]}
        return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Running", "containerStatuses": states}}

    def items(self, _kind: str, selector: str) -> list[dict]:
        name = selector.partition("=")[2]
        if name in self.jobs:
            return [self.pod("copy-pod")]
        return [pod for pod in self.pods if pod["metadata"]["name"].startswith(name)]

    def create(self, _manifest: dict) -> str:
        self.jobs.append("copy-x1")
        return "copy-x1"

    def delete(self, _kind: str, name: str) -> None:
        self.deleted.append(name)

    def find(self, _kind: str, _name: str) -> dict:
        return {"status": {"state": {"phase": self.phase, "message": "no room"}}}


@pytest.fixture
def uploads(monkeypatch) -> list[str]:
    """The pods that were asked to take files; one whose name has `bare` has no Python."""
    pods: list[str] = []

    def upload(prefix, _source, path, **_):
        pods.append(prefix[-2])
        if "bare" in prefix[-2]:
            raise NoGreetingError("python3: not found")
        return {"path": path, "bytes": 1, "sha256": ""}

    monkeypatch.setattr(module, "upload", upload)
    return pods


PLATFORM = SimpleNamespace(
    namespace="team", queue="training", trainer_image="trainer:1", data_claim="data", output_claim="output"
)
ASKED = Copy(source=Path("cifar"), target=Place(path="/data/output/t", run="t", job_name="t-1"), replace=False)


def test_a_pod_of_the_run_is_used_where_one_has_started(uploads):
    cluster = Cluster()
    cluster.pods = [cluster.pod("t-1-worker-0", started=False), cluster.pod("t-1-worker-1")]
    run_copy(cluster, PLATFORM, ASKED)
    assert (uploads, cluster.jobs) == (["t-1-worker-1"], [])


def test_another_pod_is_started_where_none_runs_or_none_can(uploads, capsys):
    cluster = Cluster()
    run_copy(cluster, PLATFORM, ASKED)
    cluster.jobs.clear()
    cluster.pods = [cluster.pod("t-1-bare")]
    run_copy(cluster, PLATFORM, ASKED)
    assert uploads == ["copy-pod", "t-1-bare", "copy-pod"]
    assert cluster.deleted == ["copy-x1", "copy-x1"]
    assert "cannot be used (python3: not found)" in capsys.readouterr().err


@pytest.mark.usefixtures("uploads")
def test_the_job_is_deleted_also_when_its_pod_never_ran(monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 1)
    cluster = Cluster()
    monkeypatch.setattr(cluster, "items", lambda *_: [])
    with pytest.raises(RefusalError, match=r"its job is Pending\. no room\. Fix: check that the queue has"):
        run_copy(cluster, PLATFORM, ASKED)
    cluster.phase = "Failed"
    with pytest.raises(RefusalError, match="its job is Failed"):
        run_copy(cluster, PLATFORM, ASKED)
    assert cluster.deleted == ["copy-x1", "copy-x1"]


def test_the_pod_writes_both_volumes_and_ends_by_itself():
    spec = module.job_manifest(PLATFORM)["spec"]["tasks"][0]["template"]["spec"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in spec["containers"][0]["volumeMounts"]}
    assert (mounts["/data/data"], mounts["/data/output"]) == (False, False)
    program = spec["containers"][0]["command"][-1]
    compile(program, "keep", "exec")
    assert "/tmp/athanor-copy-alive" in program


def _with_phase(run: str, name: str, phase: str) -> dict:
    metadata = {"name": name, "labels": {"athanor.dev/job": run}}
    return {"metadata": metadata, "spec": {"tasks": []}, "status": {"state": {"phase": phase}}}


def _in_pod(path: Path, act: str, volume: Path, *busy: str) -> dict:
    """Return what the program answers; without its own checks, too, it could only reach folders of the test."""
    top = volume.resolve().parent
    assert len(top.parts) > 3
    assert path.parent.resolve().is_relative_to(top)
    words = [files_module._IN_POD, str(path), act, json.dumps([str(volume)]), json.dumps(busy)]
    return json.loads(subprocess.run([sys.executable, "-c", *words], capture_output=True, text=True, check=True).stdout)


def test_files_are_listed_with_all_that_is_in_them_and_deleted(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints" / "1").mkdir(parents=True)
    (run / "checkpoints" / "1" / "a.pt").write_bytes(b"x" * 3 * 2**20)
    (run / "log.txt").write_text("y")
    (run / "elsewhere").symlink_to(tmp_path / "cifar")
    listed = _in_pod(run, "list", tmp_path)["entries"]
    assert [(each["name"], each["bytes"]) for each in listed][::2] == [("checkpoints", 3 * 2**20), ("log.txt", 1)]
    assert [line.split()[0] for line in files_module.table(listed)] == ["3.0", "0.0", "0.0"]
    assert _in_pod(run / "log.txt", "list", tmp_path)["entries"] == [listed[2]]
    assert _in_pod(run / "elsewhere", "delete", tmp_path)["left"] == []
    assert (tmp_path / "cifar").is_dir()
    assert _in_pod(run, "delete", tmp_path)["left"] == []
    assert not run.exists()
    assert _in_pod(run, "list", tmp_path)["exists"] is False


@each_row(
    ("link", "target", "path", "is_deleted"),
    [
        ("done/last", "../running", "done/last/a", False),
        ("done/last", "..", "done/last/running", False),
        ("done/out", "../../outside", "done/out/a", False),
        ("done/out", "../..", "done/out/volume", False),
        ("alias", "running", "done", True),
        ("alias", "running", "alias", True),
        ("done/last", "../other", "done/last/a", True),
    ],
)
def test_links_lead_to_no_file_of_a_run_that_has_not_ended_and_out_of_no_volume(link, target, path, is_deleted):
    # All links lead to folders of the test: a program without its checks deletes nothing else.
    with TemporaryDirectory() as folder_of_the_test:
        top = Path(folder_of_the_test) / "top"
        volume = top / "volume"
        folders = [volume / "running", volume / "other", volume / "done", top / "outside"]
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "a").touch()
        (volume / link).symlink_to(target)
        answer = _in_pod(volume / path, "delete", volume, str(volume / "running"))
        assert bool(answer["held"] or answer["outside"]) is not is_deleted
        assert os.path.lexists(volume / path) is not is_deleted
        assert (volume / "running" / "a").exists()


@each_row(
    ("words", "delete", "said"),
    [
        ("train-1", False, "/data/output/train-1-abc-fresh list"),
        ("train-1:a/b", False, "/data/output/train-1-abc-fresh/a/b list"),
        ("output:", False, "/data/output list"),
        ("data:own", True, "/data/data/own delete"),
        ("output:t-2-abc", True, "/data/output/t-2-abc delete"),
        ("output:", True, "PLACE = 'output:': is a whole volume"),
        ("data:link/a", True, "leads through a link to /data/x, which is of run t, which is Running"),
        (
            "output:t-1-abc/a",
            True,
            "is of run t, which is Running. Fix: wait until it has ended, or `athanor delete t`",
        ),
        ("a/b", False, "PLACE = 'a/b': is neither a run nor a path"),
        ("./a:b", False, "is neither a run nor a path in a volume"),
    ],
)
def test_what_files_may_go(monkeypatch, words, delete, said):
    acts: list[str] = []

    def work(_prefix, path, act, busy):
        acts.append(f"{path} {act}")
        held = [each for each in busy if "link" in path]
        return {"exists": True, "left": [], "entries": [], "held": held, "outside": False, "real": "/data/x"}

    monkeypatch.setattr(files_module, "_asked", work)
    cluster = Cluster()
    jobs = [_with_phase("t", "t-1-abc", "Running"), _with_phase("u", "t-2-abc", "Completed")]
    pods = [cluster.pod("p")]
    monkeypatch.setattr(cluster, "items", lambda _, selector: jobs if selector == "athanor.dev/job" else pods)
    try:
        files_module.files(cluster, PLATFORM, words, _job, delete=delete)
    except RefusalError as refusal:
        acts.append(str(refusal))
    assert said in acts[-1]
