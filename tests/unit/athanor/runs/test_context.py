"""Which cluster a command asks that names none, and `athanor context`."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace

import pytest

from athanor import command_line
from athanor.command_line import parser
from athanor.runs.context import choose_cluster, run
from infra.machine import find_programs

_LOCAL = "athanor-local"


def _config(file, *contexts: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"contexts": [{"name": name} for name in contexts]}), encoding="utf-8")


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "ATHANOR_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path


@pytest.fixture
def local(home):
    """The local environment's kubeconfig, next to its programs."""
    folder = home / ".local" / "state" / "athanor"
    (folder / "bin").mkdir(parents=True)
    for name in ("kubectl", "pulumi"):
        (folder / "bin" / name).touch(mode=0o755)
    _config(folder / "local" / "kubeconfig", _LOCAL)
    return folder / "local" / "kubeconfig"


def asked(*words: str) -> tuple[str | None, str | None]:
    given = parser().parse_args(["runs", *words])
    choose_cluster(given)
    return given.kubeconfig, given.context


def context(*words: str) -> int:
    return run(parser().parse_args(["context", *words]))


def test_from_another_virtual_environment_the_local_cluster_is_found(local, capsys):
    assert asked() == (str(local), None)
    assert capsys.readouterr().err == f"cluster: the local environment ({local})\n"


@pytest.mark.parametrize("command", ["runs", "delete a --forget", "dev --name x", "review", "apply --stack a --plan b"])
def test_from_another_virtual_environment_every_command_finds_its_programs(local, monkeypatch, command):
    def which(_: object) -> int:
        return [shutil.which(name) for name in ("kubectl", "pulumi")].count(None)

    monkeypatch.setattr(command_line, "import_module", lambda _: SimpleNamespace(run=which))
    assert command_line.main(command.split()) == 0
    before = os.environ["PATH"]
    assert before.endswith(str(local.parents[1] / "bin"))
    command_line.main(command.split())
    assert os.environ["PATH"] == before


def test_what_the_user_has_comes_first(local, home, monkeypatch, capsys):
    (home / "own").mkdir()
    (home / "own" / "kubectl").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{home / 'own'}")
    find_programs()
    assert asked("--context", "x") == (None, "x")
    assert asked("--kubeconfig", "f") == ("f", None)
    assert shutil.which("kubectl") == str(home / "own" / "kubectl")
    assert shutil.which("pulumi") == str(local.parents[1] / "bin" / "pulumi")
    _config(home / ".kube" / "config", "mine")
    assert asked() == (None, None)
    monkeypatch.setenv("KUBECONFIG", "elsewhere")
    assert asked() == (None, None)
    assert capsys.readouterr().err == ""


def test_contexts_are_listed_and_one_is_chosen(local, home, monkeypatch, capsys):
    _config(home / ".kube" / "config", "mine", "prod")
    assert context() == 0
    of_user = home / ".kube" / "config"
    assert capsys.readouterr().out.splitlines() == [f"  mine  {of_user}", f"  prod  {of_user}", f"  {_LOCAL}  {local}"]
    assert context(_LOCAL) == 0
    assert capsys.readouterr().err == f"chosen: {_LOCAL} of {local}\n"
    assert asked() == (str(local), _LOCAL)
    assert f"cluster: {_LOCAL}, chosen by `athanor context`" in capsys.readouterr().err
    assert asked("--context", "prod") == (None, "prod")
    assert context("--json") == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["context"] for each in listed if each["chosen"]] == [_LOCAL]
    monkeypatch.setenv("KUBECONFIG", str(of_user))
    assert asked() == (None, None)
    monkeypatch.delenv("KUBECONFIG")
    local.unlink()  # as `make down` does
    assert asked() == (None, None)
    assert context("-") == 0
    assert context("prdo") == 1
    assert "NAME = 'prdo': is not a context of your kubeconfigs. Fix: did you mean prod?" in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_read_is_named(home, capsys):
    (home / "broken").write_text("contexts: [", encoding="utf-8")
    assert context("--kubeconfig", str(home / "broken")) == 1
    assert f"kubeconfig = '{home / 'broken'}': cannot be read" in capsys.readouterr().err
    assert context("nope", "--json") == 1
    printed = capsys.readouterr()
    assert (printed.out, json.loads(printed.err)["field"]) == ("", "NAME")
