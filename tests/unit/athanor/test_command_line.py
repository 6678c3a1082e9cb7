"""Which command some words are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from athanor import command_line
from tests.processes import until_ended


@pytest.fixture
def parsed(monkeypatch):
    """Parse a command line and return its arguments; nothing is run."""
    seen = []
    monkeypatch.setattr(command_line, "import_module", lambda _: SimpleNamespace(run=seen.append))

    def parse(*words: str):
        command_line.main(list(words))
        return seen.pop()

    return parse


def test_commands_about_runs_may_stand_behind_runs(parsed, monkeypatch):
    assert parsed("runs", "compare", "--context", "dev", "a", "b") == parsed("compare", "--context", "dev", "a", "b")
    assert parsed("runs", "logs", "--follow", "a") == parsed("logs", "--follow", "a")
    monkeypatch.setattr(command_line.sys, "argv", ["athanor", "runs", "compare", "a", "b"])
    command_line.main()


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("run", "python", "train.py", "--lr", "1"), "run"),
        (("sweep", "--param", "lr=1,2", "python", "x.py", "--lr", "{lr}"), "sweep"),
        (("dev", "python", "x.py", "--lr", "1"), "dev"),
    ],
)
def test_options_of_a_program_before_the_dashes_are_refused_with_where_they_stand(parsed, capsys, words, command):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: athanor {command} ")
    assert f"athanor {command}: error: unrecognized arguments: --lr" in said
    assert f"go after --, as in: athanor {command} … -- python train.py --lr 1" in said


def test_runs_alone_lists_them(parsed):
    assert parsed("runs").command == "runs"
    assert parsed("runs", "--json").command == "runs"


@pytest.mark.parametrize("words", [("runs", "sweep"), ("runs", "--json", "compare", "a", "b"), ("runs", "a")])
def test_nothing_else_may_stand_behind_it(parsed, capsys, words):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--rank", "3"), ("--pod", "1")])
def test_a_command_in_a_pod_stands_behind_the_options(parsed, options):
    for before in (("a", *options), (*options, "a")):
        arguments = parsed("shell", *before, "--", "sh", "-c", "exit 7 -- x")
        assert (arguments.run, arguments.program) == ("a", ["sh", "-c", "exit 7 -- x"])
        assert parsed("shell", *before).program == []
    assert parsed("runs", "shell", "a", *options, "--", "ls", "--", "b").program == ["ls", "--", "b"]


def test_ctrl_c_while_a_command_is_imported_prints_no_traceback(monkeypatch, capsys):
    def interrupted(_module: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "import_module", interrupted)
    assert command_line.main(["runs"]) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_the_release_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: f"1.2.3 of {name}")
    with pytest.raises(SystemExit) as end:
        command_line.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr() == ("athanor 1.2.3 of athanor\n", "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_one_that_nobody_reads(parsed, monkeypatch, stream):
    monkeypatch.setattr(sys, stream, None)
    assert parsed("runs").command == "runs"
    assert getattr(sys, stream).write("x") == 1
    getattr(sys, stream).close()


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_that_nobody_reads_to_its_end_is_not_an_error(words, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert command_line.main(words) == 141
        monkeypatch.undo()


def test_a_full_disk_behind_the_output_prints_no_traceback():
    program = "import sys; from athanor.command_line import main; sys.exit(main(['completion', 'bash']))"
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "athanor completion: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    "words",
    [
        "run python x.py --workers 3",
        "run --cpu 1 python --lr 1 x.py",
        "sweep --param lr=1,2 a --name b",
        "dev python x.py --gpus 1",
    ],
)
def test_options_behind_a_program_are_refused_because_they_could_be_meant_for_it(words, capsys):
    with pytest.raises(SystemExit):
        command_line.parsed(words.split())
    assert "options of your own program go after --" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "run --workers 3 python x.py",
        "run --name python --cpu 1 python x.py",
        "run python x.py",
        "dev --gpus 1 python x.py",
    ],
)
def test_a_program_without_options_needs_no_dashes(words):
    assert command_line.parsed(words.split()).program == ["python", "x.py"]


def test_another_ctrl_c_ends_the_command_at_once_with_the_same_exit_status(monkeypatch):
    ended: list[int] = []
    monkeypatch.setattr(command_line.os, "_exit", ended.append)
    monkeypatch.setattr(command_line.sys, "argv", ["athanor", "runs"])
    monkeypatch.setattr(command_line, "import_module", lambda _: SimpleNamespace(run=lambda _: 130))
    before = signal.getsignal(signal.SIGINT)
    try:
        assert command_line.main() == 130
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [130]


TERMINATED = """
import signal, subprocess, sys, time, types
from athanor import command_line
from athanor.runs.cluster import Cluster

def run(_):
    with Cluster(where=(), context="c", namespace="n", server="s").variables():
        below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stderr=subprocess.DEVNULL)
        print(below.pid, flush=True)
        time.sleep(60)

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests were started by, such as nohup
sys.modules["stub"] = types.SimpleNamespace(run=run)
command_line._MODULES["status"] = "stub"
sys.argv = ["athanor", "status"]
sys.exit(command_line.main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_of_a_service_manager_leaves_no_kubeconfig_and_no_program(tmp_path, number):
    (tmp_path / "kubectl").write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    own = tmp_path / "tmp"
    own.mkdir()
    variables = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(own)}
    with subprocess.Popen(
        [sys.executable, "-c", TERMINATED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
    ) as process:
        below = int(process.stdout.readline())
        assert len([*own.glob("athanor-run-*/kubeconfig")]) == 1
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (128 + number, "\ninterrupted\n")
    assert [*own.iterdir()] == []
    until_ended(below)
