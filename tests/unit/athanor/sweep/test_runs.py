"""The commands that start and delete the runs of trials, and what is made of their words."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from athanor.runs import patience
from athanor.sweep import runs as module
from athanor.sweep.runs import GONE, LOST, STARTING, UNKNOWN, ClusterRuns, StartError
from athanor.sweep.sweep_folder import SweepFolder
from athanor.sweep.trials import Place
from infra.errors import RefusalError
from tests.unit.athanor.sweep.sweeps import plan
from workloads.local_folder import LocalFolder

# In place of Python: waits until it may go on, then says what `athanor run` or `athanor delete` would.
_USER = ("--run-as-user=1000", "--writable-root")
COMMAND = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/words
echo "PyTorchJob tune-0: 1 pod" >&2
read -r _ < {folder}/go
case "$*" in *--json*broken*) echo "{{\\"error\\": \\"queue = 'nope': no such queue. Fix: x\\"}}" >&2; exit 1 ;; esac
case "$*" in *broken*) echo "athanor $4: queue = 'nope': no such queue. Fix: x" >&2; exit 1 ;; esac
echo '{{"run": "tune-0", "job": "tune-0-job", "namespace": "team"}}'
"""


class Cluster:
    """A cluster with one job, which may be out of reach."""

    def __init__(self) -> None:
        self.job: dict | None = {"status": {"state": {"phase": "Running"}}}
        self.out_of_reach = False
        self.namespace, self.asked = "team", None

    def within(self, namespace):
        assert namespace == "team"
        return self

    def find(self, kind, name):
        assert (kind, name) == ("jobs.batch.volcano.sh", "tune-0-job")
        if self.out_of_reach:
            raise RefusalError("kubectl", "get", "did not answer", "wait")
        return self.job


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(module, "open_run", _no_run)
    monkeypatch.setattr(module, "series_of", lambda *_: module.read_series('{"step": 1, "loss": 2}'))
    (tmp_path / "command").write_text(COMMAND.format(folder=tmp_path), encoding="utf-8")
    (tmp_path / "command").chmod(0o755)
    subprocess.run(["mkfifo", str(tmp_path / "go")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "command"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("before", encoding="utf-8")
    kept = SweepFolder.of("tune")
    kept.create(_plan(), LocalFolder(path=str(tmp_path / "code")))
    return kept


def _no_run(name):
    raise RefusalError("run", name, "is not in your Pulumi backend", "x")


def _plan(*words: str):
    described = plan(
        "--param=lr=1,2",
        "--search=grid",
        "--gpus=2",
        "--env=A=b=c",
        "--env=D=",
        "--secret=wandb",
        "--run-as-user=1000",
        "--writable-root",
        *words,
    )
    return described.model_copy(update={"cluster": {"kubeconfig": "/k", "context": "mine", "namespace": None}})


def _go(tmp_path) -> None:
    (tmp_path / "go").write_text("go\n", encoding="utf-8")


def _ended(runs, name="tune-0"):
    (runs._starts.get(name) or runs._deletions[name]).wait(timeout=60)


def test_a_trial_is_an_ordinary_run_with_the_code_of_the_beginning(kept, tmp_path):
    (tmp_path / "code" / "train.py").write_text("edited later", encoding="utf-8")
    with kept.locked() as lock:
        runs = ClusterRuns(Cluster(), kept.plan, kept, lock)
        assert runs.look("tune-0", None).phase == LOST
        runs.start("tune-0", ["python", "train.py", "--lr", "1"])
        assert runs.look("tune-0", None).phase == STARTING
        _go(tmp_path)
        _ended(runs)
        look = runs.look("tune-0", None)
    assert (look.phase, look.place) == ("Running", Place(namespace="team", job="tune-0-job"))
    assert look.series.values("loss") == [2]
    assert (tmp_path / "words").read_text("utf-8").splitlines() == [
        "-P", "-m", "athanor", "run", "--kubeconfig=/k", "--context=mine", "--name=tune-0", f"--workdir={kept.code}",
        "--kind=pytorch", *_USER, "--env=A=b=c", "--env=D=", "--secret=wandb", "--workers=1", "--gpus=2", "--json",
        "--", "python", "train.py", "--lr", "1",
    ]  # fmt: skip
    assert (kept.code / "train.py").read_text("utf-8") == "before"


@pytest.mark.usefixtures("kept")
def test_a_trial_without_code_gets_no_folder(tmp_path):
    bare = SweepFolder.of("bare")
    bare.create(_plan("--no-code"), None)
    with bare.locked() as lock:
        runs = ClusterRuns(Cluster(), bare.plan, bare, lock)
        runs.start("bare-0", ["echo"])
        _go(tmp_path)
        runs._starts["bare-0"].wait(timeout=60)
    words = (tmp_path / "words").read_text("utf-8").splitlines()
    assert "--no-code" in words
    assert not [word for word in words if word.startswith("--workdir")]


def test_a_refused_start_is_reported_in_the_words_of_athanor_run(kept, tmp_path):
    with kept.locked() as lock:
        runs = ClusterRuns(Cluster(), kept.plan, kept, lock)
        runs.start("tune-0", ["broken"])
        _go(tmp_path)
        _ended(runs)
        with pytest.raises(StartError, match=r"^queue = 'nope': no such queue. Fix: x$"):
            runs.look("tune-0", None)


def test_a_start_that_was_cut_off_replaces_what_it_left(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "open_run", lambda name: name)
    monkeypatch.setattr(module, "outputs_of", lambda _: {})
    with kept.locked() as lock:
        runs = ClusterRuns(Cluster(), kept.plan, kept, lock)
        assert runs.look("tune-0", None).phase == LOST
        runs.start("tune-0", ["a"])
        _go(tmp_path)
        _ended(runs)
    assert "--replace" in (tmp_path / "words").read_text("utf-8").splitlines()


def test_a_run_is_found_again_by_its_name_or_by_its_place(kept, monkeypatch):
    monkeypatch.setattr(module, "open_run", lambda name: name)
    monkeypatch.setattr(module, "outputs_of", lambda _: {"job_name": "tune-0-job", "namespace": "team"})
    cluster, place = Cluster(), Place(namespace="team", job="tune-0-job")
    with kept.locked() as lock:
        runs = ClusterRuns(cluster, kept.plan, kept, lock)
        assert runs.look("tune-0", None).place == place
        monkeypatch.setattr(module, "open_run", _no_run)
        assert runs.look("tune-0", place).phase == "Running"
        cluster.job = None
        assert runs.look("tune-0", place).phase == GONE


def test_volcanos_controller_is_reminded_of_a_trial_that_gets_no_pods(kept, monkeypatch):
    reminded = []

    class Reminder:
        def __init__(self, _cluster, namespace, job):
            self._words = (namespace, job)

        def look(self):
            reminded.append((*self._words, id(self)))

    monkeypatch.setattr(module, "Reminder", Reminder)
    cluster, place = Cluster(), Place(namespace="team", job="tune-0-job")
    with kept.locked() as lock:
        runs = ClusterRuns(cluster, kept.plan, kept, lock)
        for phase in ("Running", "Pending", "Pending"):
            cluster.job = {"status": {"state": {"phase": phase}}}
            assert runs.look("tune-0", place).phase == phase
    assert [words[:2] for words in reminded] == [("team", "tune-0-job")] * 2
    assert len(set(reminded)) == 1, "the same one, which knows since when"


def test_a_cluster_out_of_reach_ends_the_sweep_only_after_a_while(kept, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    monkeypatch.setattr(patience, "monotonic", lambda: sum(slept))
    cluster, place = Cluster(), Place(namespace="team", job="tune-0-job")
    with kept.locked() as lock:
        runs = ClusterRuns(cluster, kept.plan, kept, lock)

        def phases_of_150_rounds() -> set[str]:
            phases = set()
            for _ in range(150):
                phases |= {runs.look("tune-0", place).phase, runs.look("tune-0", place).phase}
                runs.wait()
            return phases

        cluster.out_of_reach = True
        assert phases_of_150_rounds() == {UNKNOWN}
        cluster.out_of_reach = False
        assert phases_of_150_rounds() == {"Running"}
        cluster.out_of_reach = True
        assert phases_of_150_rounds() == {UNKNOWN}
        with pytest.raises(RefusalError, match="did not answer"):
            runs.look("tune-0", place)


def test_deletions_and_what_went_wrong_with_them(kept, tmp_path):
    with kept.locked() as lock:
        runs = ClusterRuns(Cluster(), kept.plan, kept, lock)
        for name, wrong in (("tune-0", ""), ("broken", "queue = 'nope': no such queue. Fix: x")):
            runs.delete(name)
            assert runs.deleted() == {}
            _go(tmp_path)
            _ended(runs, name)
            assert runs.deleted() == {name: wrong}
    assert (tmp_path / "words").read_text("utf-8").splitlines()[3:] == [
        "delete", "--kubeconfig=/k", "--context=mine", "broken",
    ]  # fmt: skip


def test_one_client_at_a_time(kept):
    with kept.locked(), pytest.raises(RefusalError, match="is in use by another"), kept.locked():
        pass


def test_the_next_client_waits_for_the_commands_of_a_killed_one(kept, tmp_path, monkeypatch):
    with kept.locked() as lock:
        runs = ClusterRuns(Cluster(), kept.plan, kept, lock)
        runs.start("tune-0", ["a"])
    kept.journal.with_name("journal.lock").symlink_to(kept.journal)
    said: list[str] = []

    def write(words: str) -> None:
        said.append(words)
        _go(tmp_path)

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write))
    with kept.locked():
        assert said == ["waiting for runs that the last client was starting or deleting\n"]
        assert '"job": "tune-0-job"' in (kept.output / "tune-0").read_text("utf-8")
        assert not kept.journal.with_name("journal.lock").is_symlink()
    _ended(runs)


def test_what_is_kept_is_private_whole_and_refused_twice(kept, tmp_path):
    assert kept.folder.stat().st_mode & 0o077 == 0
    assert kept.plan == _plan()
    source = LocalFolder(path=str(tmp_path / "code"))
    with pytest.raises(RefusalError, match="--name = 'tune': is the name of a sweep of yours"):
        kept.create(_plan(), source)
    with pytest.raises(RefusalError, match=r"sweep = 'tone': is not in .* Fix: use one of tune"):
        _ = SweepFolder.of("tone").plan
    kept.remove()
    with pytest.raises(RefusalError, match="begin one with"):
        _ = kept.plan


def test_a_folder_that_would_be_another_by_itself_is_refused_and_leaves_nothing(kept, tmp_path):
    above = tmp_path / "repository"
    (above / "code").mkdir(parents=True)
    (above / ".git").mkdir()
    (above / ".athanorignore").write_text("!id_rsa\n!secrets.json\n", encoding="utf-8")
    (above / "code" / "secrets.json").write_text("{}", encoding="utf-8")
    other = SweepFolder(kept.folder.parent / "other")
    with pytest.raises(RefusalError, match="secret"):
        other.create(_plan(), LocalFolder(path=str(above / "code")))
    assert not other.folder.exists()
