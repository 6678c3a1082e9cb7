"""Small programs that stand for the real ones: they record how they were called and answer what a test says."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tools.kubectl import Kubectl
from tools.progress import Progress

_PROGRAM = """#!{python} -S
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps({{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}) + "\\n")
answers = json.loads((folder / "answers.json").read_text())
line = " ".join(sys.argv[1:])
for answer in answers:
    if answer["when"] in line:
        if answer["once"]:
            answers.remove(answer)
            (folder / "answers.json").write_text(json.dumps(answers))
        sys.stdout.write(answer["stdout"])
        sys.stderr.write(answer["stderr"])
        sys.exit(answer["status"])
sys.exit("this program has no answer to: " + line)
"""


@dataclass(frozen=True)
class FakeProgram:
    """A program whose answers are set before it is called."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "program"

    def answer(self, when: str, stdout: str = "", *, stderr: str = "", status: int = 0, once: bool = False) -> None:
        """Say what to print when `when` is part of the command line; of several that fit the first one counts."""
        file = self.folder / "answers.json"
        answers = json.loads(file.read_text()) if file.exists() else []
        answers.append({"when": when, "stdout": stdout, "stderr": stderr, "status": status, "once": once})
        file.write_text(json.dumps(answers))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How it was called so far: words, env, cwd."""
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def lines(self) -> list[str]:
        return [" ".join(call["words"]) for call in self.calls]


@pytest.fixture
def fake_program(tmp_path) -> FakeProgram:
    folder = tmp_path / "fake"
    folder.mkdir()
    program = FakeProgram(folder)
    program.path.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
    program.path.chmod(0o755)
    (folder / "answers.json").write_text("[]")
    return program


@pytest.fixture
def own_folders(monkeypatch, tmp_path) -> Path:
    """Put state and cache into folders of the test; return that of the state."""
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "home"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts a shell script of a name into a folder on PATH (all of them, in order of use)."""
    folders = []

    def add(name, script, folder="bin"):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        if path not in folders:
            folders.append(path)
        monkeypatch.setenv("PATH", ":".join(map(str, folders)))
        (path / name).write_text(f"#!/bin/sh\n{script}\n")
        (path / name).chmod(0o755)
        return path / name

    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return add


@pytest.fixture
def kubectl(fake_program, tmp_path) -> Kubectl:
    return Kubectl(program=fake_program.path, kubeconfig=tmp_path / "kubeconfig", context="athanor-local")


@dataclass(frozen=True)
class Report:
    """A progress report and what a person would see of it."""

    progress: Progress
    screen: io.StringIO

    @property
    def text(self) -> str:
        return self.screen.getvalue()


@pytest.fixture
def report(tmp_path) -> Report:
    screen = io.StringIO()
    console = Console(file=screen, width=120, highlight=False)
    return Report(Progress(durations_file=tmp_path / "durations.json", console=console), screen)
