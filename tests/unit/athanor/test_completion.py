"""The shells' scripts, with a real bash; the others' are only written here."""

from __future__ import annotations

import os
import subprocess

import pytest

from athanor.command_line import main, parser
from tests.tables import each_row
from workloads.owner import owner_label

# What bash does when somebody presses Tab behind the last word.
TAB = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
read -r _ _ _ _ completer _ <<< "$(complete -p athanor)"
"$completer" athanor "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(capsys, shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def tab(capsys, tmp_path):
    file = tmp_path / "athanor.bash"
    file.write_text(script(capsys, "bash"), encoding="utf-8")

    def press(*words: str) -> list[str]:
        command = ["bash", "--norc", "-c", TAB, "bash", str(file), "athanor", *words]
        path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=path)
        assert done.stderr == ""
        return done.stdout.split()

    return press


@each_row(
    ("words", "expected"),
    [
        (("comp",), {"compare", "completion"}),
        (("st",), {"status", "stop"}),
        (("status", "--j"), {"--json"}),
        (("run", "--pr"), {"--prepare", "--print-program", "--print-yaml", "--preview", "--priority", "--processes"}),
        (("run", "--kind", ""), {"pytorch", "mpi", "tensorflow", "batch"}),
        (("run", "--kind", "m"), {"mpi"}),
        (("rerun", "train-1", "--f"), {"--fresh", "--force"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_commands_options_and_choices(tab, words, expected):
    assert set(tab(*words)) == expected


def own_options(name: str) -> set[str]:
    [commands] = [each for each in parser()._actions if each.dest == "command"]
    command = (commands.choices or {})[name]
    return {word for action in command._actions for word in action.option_strings if word.startswith("--")}


COMMANDS = sorted(next(each for each in parser()._actions if each.dest == "command").choices or {})


@each_row("name", COMMANDS)
def test_bash_completes_every_command_and_all_of_its_options(tab, name):
    assert name in tab(name)
    assert set(tab(name, "--")) == own_options(name)


CHOICES = {
    ("sweep", "--search"): {"grid", "random", "tpe"},
    ("sweep", "--goal"): {"minimize", "maximize"},
    ("sweep", "--stop-early"): {"median"},
    ("sweep", "--kind"): {"pytorch", "mpi", "tensorflow", "batch"},
    ("review", "--fail-on"): {"never", "destructive", "replace", "change"},
}


@each_row("words", CHOICES)
def test_bash_completes_the_choices_of_an_option(tab, words):
    assert set(tab(*words, "")) == CHOICES[words]


OF_RUNS = ("logs", "watch", "compare", "curves", "why", "stop", "resume", "delete", "rerun", "shell", "port-forward",
           "tensorboard")  # fmt: skip


@each_row("name", OF_RUNS)
def test_bash_completes_the_runs_of_every_command_about_them(tab, kubectl, name):
    kubectl(f"cat <<END\n{JOBS}END")
    assert tab(name, "t") == ["train-1", "train-22"]


def test_bash_completes_files_and_folders(tab, tmp_path):
    (tmp_path / "file.yaml").touch()
    (tmp_path / "folder").mkdir()
    assert {"file.yaml", "folder"} <= set(tab("runs", "--kubeconfig", "f"))
    assert tab("run", "--workdir", "f") == ["folder"]


@pytest.fixture
def kubectl(tmp_path):
    """Put a kubectl on PATH that does what the lines of a shell say."""

    def answering(lines: str) -> None:
        program = tmp_path / "bin" / "kubectl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        program.chmod(0o755)

    return answering


JOBS = f"""\
train-1-0a1b2c3d   Running     2   2   5m   {owner_label("athanor-runs", "train-1")}   train-1
other-0a1b2c3d     Completed   1       9d   {owner_label("team", "dev")}   other
train-22-4e5f6a7b  Failed      1       9d   {owner_label("athanor-runs", "train-22")}   train-22
"""
"""As `kubectl get --label-columns` prints them."""


@each_row(
    ("words", "expected"),
    [
        (("logs", ""), ["train-1", "train-22"]),
        (("curves", "train-1", "train-2"), ["train-22"]),
        (("compare", "train-1", "t"), ["train-1", "train-22"]),
    ],
)
def test_bash_completes_the_names_of_runs(tab, kubectl, words, expected):
    kubectl(f"cat <<END\n{JOBS}END")
    assert tab(*words) == expected


def test_a_cluster_that_does_not_answer_is_silent(tab, kubectl):
    kubectl("echo 'Unable to connect to the server' >&2; exit 1")
    assert tab("stop", "") == []


@each_row("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_every_script(capsys, shell):
    completions = script(capsys, shell)
    [commands] = [each for each in parser()._actions if each.dest == "command"]
    assert commands.choices
    assert [name for name in commands.choices if name not in completions] == []


def test_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["completion", "cmd"])
    assert ended.value.code == 2
    assert "invalid choice: 'cmd'" in capsys.readouterr().err
