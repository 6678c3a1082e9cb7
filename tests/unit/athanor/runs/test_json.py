"""--json: what programs read of commands that do something to a run, of lines, and of refusals."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from athanor.command_line import main, parser
from athanor.runs import command as module
from athanor.runs import stack
from athanor.runs.cluster import Cluster
from athanor.runs.engine_error import EngineError
from infra.errors import RefusalError

REFUSED = {
    **{name: [] for name in ("runs", "status")},
    **{name: ["lr"] for name in ("logs", "watch", "why", "stop", "resume", "delete", "rerun")},
    **{name: ["lr", "momentum"] for name in ("compare", "copy")},
    "curves": ["lr"],
    "files": ["lr"],
    "run": ["--workdir=.", "--", "python", "train.py"],
    "sweep": ["--name=rate", "--workdir=.", "--param=lr=1,2", "--", "python", "train.py", "{lr}"],
    "leftovers": ["nope"],
    "comment": ["--pull-request=7", "nope.md"],
    "issue": ["--title=drift", "nope.md"],
}
"""Words of every command that has --json, which it refuses where no cluster, stack or file is."""


@pytest.fixture(autouse=True)
def _run(tmp_path, monkeypatch):
    """A run whose commands succeed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    cluster = SimpleNamespace(
        server="https://10.0.0.1:6443", namespace="team", within=lambda _: cluster, variables=lambda: nullcontext({}),
        find=lambda *_: None, items=lambda *_: [], has_typed_namespace=True,
    )  # fmt: skip
    monkeypatch.setattr(module.Cluster, "of", lambda _: cluster)
    monkeypatch.setattr(stack, "open_run", lambda *_: "stack")
    monkeypatch.setattr(stack, "outputs_of", lambda _: {"job_name": "lr-1", "namespace": "team"})
    monkeypatch.setattr(module, "stop", lambda *_: None)
    monkeypatch.setattr(module, "resume", lambda *_: "Pending")
    monkeypatch.setattr(stack, "remove", lambda _: None)


@pytest.mark.parametrize(("verb", "state"), [("stop", "Aborted"), ("resume", "Pending"), ("delete", "deleted")])
def test_what_was_done_is_one_object_or_one_line(verb, state, capsys):
    assert main([verb, "lr", "--json"]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == ({"run": "lr", "job": "lr-1", "state": state}, "")
    assert main([verb, "lr"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


def test_a_run_that_was_never_started_is_deleted_without_a_job(monkeypatch, capsys):
    monkeypatch.setattr(stack, "outputs_of", lambda _: {})
    assert main(["delete", "lr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"run": "lr", "job": None, "state": "deleted"}


def raising(error: Exception):
    def refuse(*_: object) -> None:
        raise error

    return refuse


@pytest.mark.parametrize("verb", ["stop", "logs", "watch", "why", "rerun"])
def test_a_refusal_is_one_object_on_standard_error_with_the_same_status(verb, monkeypatch, capsys):
    monkeypatch.setattr(stack, "outputs_of", raising(RefusalError("run", "lr", "is not there", "start it")))
    assert main([verb, "lr", "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err) == {
        "command": verb, "error": "run = 'lr': is not there. Fix: start it",
        "field": "run", "limit": "is not there", "fix": "start it",
    }  # fmt: skip
    assert main([verb, "lr"]) == 1
    assert capsys.readouterr().err == f"athanor {verb}: run = 'lr': is not there. Fix: start it\n"


def test_a_failure_of_the_engine_is_one_line_too(monkeypatch, capsys):
    monkeypatch.setattr(stack, "remove", raising(EngineError("first\nsecond")))
    assert main(["delete", "lr", "--json"]) == 1
    assert json.loads(capsys.readouterr().err) == {
        "command": "delete", "error": "first\nsecond", "field": None, "limit": None, "fix": None,
    }  # fmt: skip


def commands_with_json() -> set[str]:
    [commands] = [action for action in parser()._actions if action.dest == "command"]
    return {name for name, command in commands.choices.items() if "--json" in command._option_string_actions}


def test_every_command_with_json_is_tried_below():
    assert commands_with_json() == {*REFUSED, "context"}, "context, which asks no cluster, is in test_context.py"


@pytest.mark.parametrize("command", REFUSED)
def test_every_command_with_json_refuses_in_one_object(command, tmp_path, monkeypatch, capsys):
    refusal = RefusalError("--context", "nope", "is not in your kubeconfig", "name another")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Cluster, "of", raising(refusal))
    assert main([command, "--json", *REFUSED[command]]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    said = json.loads(printed.err.splitlines()[-1])
    assert said["command"] == command
    assert said["error"]
