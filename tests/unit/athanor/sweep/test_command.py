"""`athanor sweep` from its command line: what is refused before anything is kept, and how it ends."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from athanor.command_line import main
from athanor.sweep import work
from athanor.sweep.sweep_folder import SweepFolder
from athanor.sweep.work import options_of
from tests.tables import each_row
from tests.unit.athanor.sweep.sweeps import OwnRuns, Run, plan

VIEW = {
    "contexts": [{"name": "mine", "context": {"namespace": "team"}}],
    "clusters": [{"cluster": {"server": "https://c:6443"}}],
}
BEGIN = ("--name", "tune", "--param", "lr=1,2", "--search", "grid")
COMMAND = ("--", "python", "train.py", "--lr", "{lr}")
REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """A folder with a script, a kubectl that knows one context, and no runs."""
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{json.dumps(VIEW)}'\n", encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train.py").write_text("print()", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path / "own")


@pytest.fixture
def runs(monkeypatch) -> OwnRuns:
    """Runs of this process, for all clients of a test."""
    runs = OwnRuns(lambda program: Run(program, [float(program[-1])]))
    monkeypatch.setattr(work, "ClusterRuns", lambda *_: runs)
    monkeypatch.setattr(work, "all_runs", lambda: [*runs.alive])
    return runs


def _sweep(*words: str) -> int:
    return main(["sweep", *words])


@pytest.mark.usefixtures("runs")
def test_a_sweep_from_the_beginning_to_the_end(capsys):
    assert _sweep(*BEGIN, *COMMAND) == 0
    said = capsys.readouterr()
    assert said.err.startswith("sweep tune: grid, 2 trials, 1 at a time\n")
    assert re.search(r"^\* +\d +tune-\d +completed +1 +10 +1$", said.out, re.MULTILINE)
    assert SweepFolder.of("tune").plan.cluster == {"kubeconfig": None, "context": "mine", "namespace": None}

    assert _sweep("--resume", "tune", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sweep"], len(answer["trials"])) == ("tune", 2)
    assert _sweep(*BEGIN, *COMMAND) == 1
    assert "--name = 'tune': is the name of a sweep of yours" in capsys.readouterr().err


def test_a_sweep_may_send_no_code(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    words = (*BEGIN, "--then", "python /app/export.py 1", "--kind", "batch")
    assert _sweep(*words, "--", "echo", "{lr}") == 1
    assert "--workdir = '" in (said := capsys.readouterr().err)
    assert "or add --no-code if the program is in the image" in said
    assert _sweep(*words, "--no-code", "--", "echo", "{lr}") == 0
    assert not SweepFolder.of("tune").code.exists()
    assert runs.started == ["tune-0", "tune-1", "tune-then"]
    assert _sweep("--delete", "tune") == 0


def test_ctrl_c_detaches_and_resume_continues_with_other_numbers(runs, capsys):
    words = ("--name", "tune", "--param", "lr=1..9", "--search", "random", "--trials", "2")
    runs.killed_at = 2
    assert _sweep(*words, *COMMAND) == 130
    assert "athanor sweep --resume tune" in capsys.readouterr().err
    assert _sweep("--resume", "tune", "--trials", "4", "--parallel", "2") == 0
    assert len(runs.started) == 4
    assert SweepFolder.of("tune").plan.trials == 4


THEN = ("--then", "sh -c 'cp {output}/best.pt /data/output/{run}-{lr}.pt; echo ${HOME}' export 1")


def test_a_command_runs_at_the_end_with_the_values_and_files_of_the_best_trial(runs, capsys):
    assert _sweep(*BEGIN, *THEN, "--json", *COMMAND) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["then"] == {"run": "tune-then", "completed": True}
    best = json.loads(said.out)["best"]
    words = f"cp /data/output/{best}-job/best.pt /data/output/{best}-1.pt; echo ${{HOME}}"
    assert runs.alive["tune-then"].program == ["sh", "-c", words, "export", "1"]
    assert "tune-then: Completed (then: sh -c " in said.err
    assert _sweep("--resume", "tune") == 0
    assert runs.started.count("tune-then") == 1
    assert _sweep("--delete", "tune") == 0
    assert not runs.alive


def test_a_command_for_the_end_may_come_later_and_its_failure_is_one_of_the_sweep(runs, capsys):
    assert _sweep(*BEGIN, *COMMAND) == 0
    runs.program = lambda program: Run(program, [], then="Failed")
    assert _sweep("--resume", "tune", "--then", "python3 export.py {lr} 1") == 1
    assert "tune-then: Failed (then: python3 export.py 1 1)" in capsys.readouterr().err
    assert _sweep("--resume", "tune", "--then", "python3 other.py") == 1
    said = (
        "--then = 'python3 other.py': the sweep has another. Fix: omit it, or run yours with `athanor run`; the sweep's"
    )
    assert said in capsys.readouterr().err


def test_ctrl_c_while_the_command_of_the_end_runs(runs, capsys):
    _sweep(*BEGIN, *COMMAND)
    runs.rounds, runs.killed_at = 0, 1
    assert _sweep("--resume", "tune", "--then", "python3 export.py 1") == 130
    assert "tune-then keeps running; `athanor sweep --resume tune` waits for it again" in capsys.readouterr().err
    assert _sweep("--resume", "tune") == 0
    assert runs.started.count("tune-then") == 1


def test_a_command_for_the_end_that_cannot_start_is_reported(runs, capsys):
    _sweep(*BEGIN, *COMMAND)
    runs.refuses = "queue = 'nope': no such queue"
    assert _sweep("--resume", "tune", "--then", "python3 export.py 1") == 1
    assert "athanor sweep: queue = 'nope': no such queue" in capsys.readouterr().err


def test_the_run_of_the_end_is_one_pod_without_gpus():
    given = (
        "--gpus 2 --workers 4 --env A=--kind=mpi --cpu 2 --deadline 2h --image i:1 --writable-root --run-as-user 1000"
        " --no-code"
    )
    options = options_of(plan(*BEGIN[2:], *given.split()))
    assert set(options) == {
        "--kind=batch", "--image=i:1", "--env=A=--kind=mpi", "--cpu=2", "--writable-root", "--run-as-user=1000",
        "--no-code",
    }  # fmt: skip


def test_delete_deletes_all_runs_and_the_sweep(runs, capsys):
    _sweep(*BEGIN, *COMMAND)
    runs.alive["tune-7"] = Run([], [])
    assert _sweep("--delete", "tune") == 0
    assert list(runs.alive) == ["tune-7"]
    assert "deleted: sweep tune" in capsys.readouterr().err
    assert _sweep("--resume", "tune") == 1


def test_a_run_that_is_not_deleted_keeps_the_sweep(runs, capsys):
    _sweep(*BEGIN, *COMMAND)
    runs.wrong = "no rights"
    assert _sweep("--delete", "tune") == 1
    assert "was not deleted: no rights" in capsys.readouterr().err
    assert SweepFolder.of("tune").folder.exists()


def test_a_sweep_of_which_nothing_could_start_leaves_nothing(runs, capsys):
    runs.refuses = "queue = 'nope': the platform has no queue of that name"
    assert _sweep(*BEGIN, *COMMAND) == 1
    assert "athanor sweep: queue = 'nope': the platform" in capsys.readouterr().err
    assert not SweepFolder.of("tune").folder.exists()


def test_a_later_start_that_is_refused_keeps_what_there_is(runs, capsys):
    runs.killed_at = 2
    _sweep(*BEGIN, *COMMAND)
    runs.refuses = "kubectl = 'get': did not answer"
    assert _sweep("--resume", "tune") == 1
    assert "to start the others: athanor sweep --resume tune" in capsys.readouterr().err
    runs.refuses = ""
    assert _sweep("--resume", "tune") == 0


def test_a_trial_is_never_mistaken_for_another_run(runs, capsys):
    runs.alive["tune-1"] = Run([], [])
    assert _sweep(*BEGIN, *COMMAND) == 1
    assert "--name = 'tune': a run of the sweep would have the name of your run tune-1" in capsys.readouterr().err
    assert not SweepFolder.of("tune").folder.exists()


@each_row(
    ("words", "message"),
    [
        (BEGIN, "command = '': is missing"),
        ((*BEGIN, "--gpus", "-1", *COMMAND), "--gpus = -1: must be 0 to 16"),
        ((*BEGIN, "--kind", "batch", "--elastic", "1", *COMMAND), "--elastic = 1: applies only to --kind pytorch"),
        ((*BEGIN, "--workdir", "nope", *COMMAND), "--workdir = 'nope': is not a folder"),
        (("--resume", "tune", "--gpus", "1"), "--gpus = 1: cannot be combined with --resume"),
        (("--resume", "tune", "--stop-early", "median"), "--stop-early = 'median': cannot be combined with --resume"),
        (("--resume", "tune", "--", "python"), "command = ['python']: cannot be combined with --resume"),
        ((*BEGIN, "--then", "", *COMMAND), "--then = '': is empty"),
        ((*BEGIN, "--then", "a && b", *COMMAND), "--then = 'a && b': && needs a shell"),
        ((*BEGIN, "--then", "echo 'a", *COMMAND), "--then = \"echo 'a\": is not a command: ' is not closed"),
        (
            (*BEGIN, "--then", "echo {wd}", *COMMAND),
            "--then = '{wd}': the command has this placeholder, but the sweep has no",
        ),
        (
            (*BEGIN, "--param", "run=1,2", *THEN, *COMMAND, "{run}"),
            "--param = 'run': --then has a placeholder {run} of",
        ),
        (("--delete", "tune", "--then", "a"), "--then = 'a': cannot be combined with --delete"),
        (("--delete", "tune", "--trials", "1"), "--trials = 1: cannot be combined with --delete"),
        (("--resume", "tune"), "sweep = 'tune': is not in"),
    ],
)
def test_what_is_refused_before_anything_is_kept(words, message, capsys):
    assert _sweep(*words) == 1
    assert f"athanor sweep: {message}" in capsys.readouterr().err
    assert not SweepFolder.of("tune").folder.exists()


def test_without_optuna_the_message_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [
        name
        for name in sys.modules
        if name in {f"athanor.sweep.{each}" for each in ("work", "loop", "table", "trials")}
    ]:
        monkeypatch.delitem(sys.modules, name)
    assert _sweep(*BEGIN, *COMMAND) == 1
    assert "pip install 'athanor[sweep]'" in capsys.readouterr().err
    assert not SweepFolder.of("tune").folder.exists()


def test_the_extra_has_the_version_that_is_tested():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    [pin] = project["project"]["optional-dependencies"]["sweep"]
    assert pin in (REPOSITORY / "requirements-test.in").read_text(encoding="utf-8").splitlines()


def test_a_terminal_has_one_table_that_is_drawn_again(runs, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert _sweep(*BEGIN, *COMMAND) == 0
    said = capsys.readouterr()
    assert said.out == ""
    tables = said.err.split("\x1b[H\x1b[J")[1:]
    assert len(tables) == runs.rounds + 1
    assert all(each.startswith("sweep tune: grid, 2 trials") for each in tables)
    assert "*  " in tables[-1]
