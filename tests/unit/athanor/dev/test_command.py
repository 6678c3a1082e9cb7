"""`athanor dev`: when it starts a pod, when it finds one, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from athanor.command_line import parser
from athanor.dev import command as module
from athanor.dev.command import _check_same, _described, _name_of, _pod
from athanor.run.command import Started
from infra.errors import RefusalError
from workloads.batch import BatchJobArgs

if TYPE_CHECKING:
    import argparse


def given(*words: str) -> argparse.Namespace:
    return parser().parse_args(["dev", *words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "My Project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return folder


def test_a_folder_has_one_name(folder, tmp_path):
    name = _name_of(folder)
    assert name == _name_of(folder)
    assert name.startswith("dev-my-project-")
    other = tmp_path / "other" / "My Project"
    assert _name_of(other) != name


@pytest.mark.usefixtures("folder")
def test_it_is_one_pod_that_waits_and_sends_no_code():
    described = _described(given("--gpus", "2", "--idle", "30m", "--queue", "research"), "dev-a")
    args = described.args
    assert isinstance(args, BatchJobArgs)
    assert (args.pods, args.source, args.resources.gpus, args.queue) == (1, None, 2, "research")
    assert args.command[:2] == ("python3", "-c")
    assert args.command[3:] == ("/tmp/athanor-dev-alive", "1800")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--idle", "soon"), "--idle = 'soon': must be a whole number of s, m, h or d"),
        (("--gpus", "-1"), "--gpus = -1"),
        (("--egress", "huggingface.co"), "--egress = 'huggingface.co'"),
    ],
)
def test_what_no_pod_could_be_is_refused(words, message):
    with pytest.raises(RefusalError) as refusal:
        _described(given(*words), "dev-a")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "words", [("--gpus", "1"), ("--env", "A=b"), ("--image", "own:1"), ("--volume", "a:/b"), ("--run-as-user", "7")]
)
def test_options_for_a_pod_that_exists_are_refused(words):
    with pytest.raises(RefusalError, match=f"{words[0]} = .*: this folder has a pod already, dev-a. Fix: omit it"):
        _check_same(given(*words), "dev-a")
    _check_same(given("--idle", "2h", "--forward", "8888", "--", "python", "a.py"), "dev-a")


class Cluster:
    """A cluster with the job of a pod, or none."""

    def __init__(self, phase: str | None) -> None:
        self.phase, self.namespace = phase, "team"

    def within(self, _namespace: str):
        return self

    def find(self, _kind: str, _name: str):
        return None if self.phase is None else {"status": {"state": {"phase": self.phase}}}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("exists", "phase", "does"),
    [
        (False, None, ["start"]),
        (True, "Running", []),
        (True, "Pending", []),
        (True, "Completed", ["rerun"]),
        (True, "Aborted", ["resume"]),
        (True, None, ["replace"]),
    ],
)
def test_it_starts_a_pod_or_finds_the_one_of_the_folder(exists, phase, does, monkeypatch):
    done: list[str] = []

    def start(arguments, *_, keep_folder):
        assert keep_folder
        done.append("replace" if arguments.replace else "start")
        return Started(namespace="team", job_name="dev-a-1")

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(module, "rerun", lambda *_, **__: done.append("rerun"))
    monkeypatch.setattr(module, "resume", lambda *_: done.append("resume"))
    monkeypatch.setattr(module, "all_runs", lambda: {"dev-a": ""} if exists else {})
    monkeypatch.setattr(module, "open_run", lambda name: name)
    monkeypatch.setattr(module, "outputs_of", lambda _: {"namespace": "team", "job_name": "dev-a-1"})
    cluster = Cluster(phase)
    monkeypatch.setattr(module.Cluster, "of", lambda _: cluster)
    arguments = given()
    assert _pod(arguments, _described(arguments, "dev-a")) == (cluster, "dev-a-1")
    assert done == does
