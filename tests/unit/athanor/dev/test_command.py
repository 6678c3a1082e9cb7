"""`athanor dev`: when it starts a pod, when it finds one, and what it refuses."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from athanor.command_line import parser
from athanor.dev import command as module
from athanor.dev.command import _await_pod, _described, _pod, name_of, name_of_pod
from athanor.dev.pod_options import in_words
from athanor.run.command import Started
from athanor.run.recorded import recorded
from infra.errors import RefusalError
from tests.tables import each_row
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
    name = name_of(folder)
    assert name == name_of(folder)
    assert name.startswith("dev-my-project-")
    other = tmp_path / "other" / "My Project"
    assert name_of(other) != name
    assert (tmp_path / "data" / "athanor" / "machine").stat().st_mode & 0o777 == 0o600


def test_the_same_path_on_another_machine_has_another_name(folder, tmp_path, monkeypatch):
    name = name_of(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data of another machine"))
    assert name_of(folder) != name


def test_a_pod_of_an_earlier_release_is_found_where_it_was_used(folder, tmp_path):
    earlier = f"dev-my-project-{hashlib.sha256(str(folder).encode()).hexdigest()[:6]}"
    assert name_of(folder) != earlier
    state = tmp_path / "data" / "athanor" / "dev" / f"{earlier}-1a2b3c.json"
    state.parent.mkdir(parents=True)
    state.touch()
    assert name_of(folder) == earlier
    state.unlink()  # as --stop does
    assert name_of(folder) != earlier


def test_a_folder_has_one_pod_whatever_its_name(folder):
    runs: set[str] = set()
    default = name_of(folder)
    assert name_of_pod(folder, None, runs.__contains__) == default
    assert name_of_pod(folder, "mine", runs.__contains__) == "mine"
    runs.add("mine")
    assert name_of_pod(folder, None, runs.__contains__) == "mine"
    assert name_of_pod(folder, "mine", runs.__contains__) == "mine"
    with pytest.raises(RefusalError, match=r"--name = 'other': this folder has a pod already, mine\. Fix: omit it"):
        name_of_pod(folder, "other", runs.__contains__)
    runs.clear()  # after --stop
    assert name_of_pod(folder, None, runs.__contains__) == default
    runs.add(default)
    with pytest.raises(RefusalError, match=f"has a pod already, {default}"):
        name_of_pod(folder, "other", runs.__contains__)


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
        (("--idle", "0s"), "--idle = '0s': must be 1s to 3650d"),
        (("--gpus", "-1"), "--gpus = -1"),
        (("--egress", "huggingface.co"), "--egress = 'huggingface.co'"),
    ],
)
def test_what_no_pod_could_be_is_refused(words, message):
    with pytest.raises(RefusalError) as refusal:
        _described(given(*words), "dev-a")
    assert message in str(refusal.value)


@pytest.fixture
def connect(monkeypatch):
    """Runs the command where the pod of some options exists."""

    def run(before: tuple[str, ...], now: tuple[str, ...]) -> tuple[Cluster, str]:
        first = _described(given(*before), "dev-a")
        outputs = {"namespace": "team", "job_name": "dev-a-1", "arguments": json.dumps(recorded(first))}
        cluster = Cluster("Running", list(first.args.command))
        monkeypatch.setattr(module, "all_runs", lambda: {"dev-a": ""})
        monkeypatch.setattr(module, "open_run", lambda name: name)
        monkeypatch.setattr(module, "outputs_of", lambda _: outputs)
        monkeypatch.setattr(module.Cluster, "of", lambda _: cluster)
        arguments = given(*now)
        return _pod(arguments, _described(arguments, "dev-a"))

    return run


_OPTIONS = (
    ("--gpus", "1"), ("--env", "A=b"), ("--image", "own:1"), ("--volume", "a:/b"), ("--run-as-user", "7"),
    ("--egress", "internet:443,80"), ("--secret", "wandb", "--secret", "key:/secrets"), ("--deadline", "2h"),
    ("--writable-root",), ("--cpu", "2", "--memory", "4Gi"), ("--idle", "2h"),
)  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", _OPTIONS)
def test_the_same_options_connect_again_and_others_are_refused(connect, words):
    assert connect(words, words)[1] == "dev-a-1"
    assert connect(words, ("--forward", "8888", "--", "python", "a.py"))[1] == "dev-a-1"
    with pytest.raises(
        RefusalError, match=f"{words[0]}.*: this folder has a pod already, dev-a.* Fix: omit (it|them) "
    ):
        connect((), words)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (("--gpus", "2"), ("--gpus", "1"), "--gpus = 1: this folder has a pod already, dev-a, with 2."),
        ((), ("--image", "a:2"), "--image = 'a:2': this folder has a pod already, dev-a, with the default."),
        (
            ("--idle", "90m"),
            ("--idle", "1h"),
            "--idle = '1h': this folder has a pod already, dev-a, which ends after 90m.",
        ),
        ((), ("--idle", "2h"), "which ends after 1h."),
        (
            ("--gpus", "2"),
            ("--gpus", "1", "--cpu", "2", "--idle", "2h"),
            "(--gpus 1: with 2; --cpu 2: with the default; --idle 2h: which ends after 1h). Fix: omit them to connect,",
        ),
        (("--gpus", "2"), ("--gpus", "0"), "--gpus = 0: this folder has a pod already, dev-a, with 2."),
        (("--run-as-user", "7"), ("--run-as-user", "0"), "--run-as-user = 0: this folder has a pod already, dev-a, "),
    ],
)
def test_both_values_are_named(connect, before, now, message):
    with pytest.raises(RefusalError) as refusal:
        connect(before, now)
    assert message in str(refusal.value)


@each_row(("seconds", "words"), [(20, "20s"), (5400, "90m"), (3600, "1h"), (172800, "2d")])
def test_a_time_is_said_as_it_is_typed(seconds, words):
    assert in_words(seconds) == words


class Cluster:
    """A cluster with the job of a pod, or none."""

    def __init__(self, phase: str | None, command: list[str] | None = None) -> None:
        self.phase, self.namespace, self.command = phase, "team", command or ["python3", "3600"]
        self.pods: list[dict] = []

    def within(self, _namespace: str):
        return self

    def find(self, _kind: str, _name: str):
        spec = {"containers": [{"name": "pod", "command": self.command}]}
        job = {"spec": {"tasks": [{"template": {"spec": spec}}]}, "status": {"state": {"phase": self.phase}}}
        return None if self.phase is None else job

    def items(self, _kind: str, _selector: str):
        return self.pods


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


def pod(state: dict, *, started: bool) -> dict:
    status = {"name": "pod", "state": state, "started": started}
    phase = "Running" if started else "Pending"
    spec = {"containers": [{"name": "pod"}]}
    return {
        "metadata": {"name": "dev-a-pod-0"},
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [status]},
    }


def test_it_says_what_keeps_the_pod_from_starting_once(monkeypatch, capsys):
    cluster = Cluster("Pending")
    cluster.pods = [pod({"waiting": {"reason": "ErrImagePull"}}, started=False)]
    polls = []

    def sleep(_seconds: float) -> None:
        polls.append(1)
        if len(polls) == 3:
            cluster.pods = [pod({"running": {}}, started=True)]

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    _await_pod(cluster, "dev-a-1")
    assert capsys.readouterr().err == "waiting: Pending (dev-a-pod-0: ErrImagePull, `athanor why` says more)\n"


def test_a_pod_that_has_ended_is_not_waited_for():
    with pytest.raises(RefusalError, match="pod = 'dev-a-1': ended: Failed"):
        _await_pod(Cluster("Failed"), "dev-a-1")
