"""What pods write, on a terminal, with a kubectl of this test."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from athanor.runs.pod_lines import PodLines
from tests.fixtures.recorded_stack import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

POD = {"metadata": {"name": "train-1-worker-0"}, "spec": {"containers": [{"name": "worker"}]}}
HOSTILE = r"\033]0;title\007\033[31mred\033[0m 50%%\r100%% \342\200\256 \377\nlast"
MANY_LINES_TO_HEAD = """
import sys
from types import SimpleNamespace
from athanor import command_line
from athanor.runs import follow, questions

class Cluster:
    prefix = [sys.argv[1]]
    def find(self, kind, name):
        return {"status": {"state": {"phase": "Completed"}}}
    def items(self, kind, selector):
        return [{**POD, "status": {"phase": "Succeeded"}}]

POD = {"metadata": {"name": "train-1-worker-0", "uid": "u"}, "spec": {"containers": [{"name": "worker"}]}}
questions.run = lambda _: questions.exit_status("logs", lambda: follow.print_logs(Cluster(), "train-1"))
sys.exit(command_line.main(["logs", "train"]))
"""


class Cluster:
    def __init__(self, kubectl: Path) -> None:
        self.prefix = [str(kubectl)]


@pytest.fixture
def kubectl(tmp_path):
    def write(script: str) -> Path:
        program = tmp_path / "kubectl"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    return write


def test_nothing_that_a_terminal_obeys_is_printed(kubectl, capsys):
    lines = PodLines(Cluster(kubectl(f"printf '{HOSTILE}'")), "train-1", POD, follow=False)
    lines.wait()
    lines.stop()
    assert capsys.readouterr().out == "[worker-0] 100% \\u202e \\xff\n[worker-0] last\n"


def test_for_programs_each_line_has_its_pod_and_its_time_and_stays_as_it_was(kubectl, capsys):
    script = (
        r"case $* in *--timestamps*) printf '2026-01-01T10:00:00.5Z a\033[31m b\n"
        r"2026-01-01T10:00:01+08:00 \nno time\n' ;; esac"
    )
    lines = PodLines(Cluster(kubectl(script)), "train-1", POD, follow=False, as_json=True)
    lines.wait()
    lines.stop()
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert [json.loads(line) for line in printed.splitlines()] == [
        {"pod": "train-1-worker-0", "time": "2026-01-01T10:00:00.5Z", "line": "a\x1b[31m b"},
        {"pod": "train-1-worker-0", "time": "2026-01-01T10:00:01+08:00", "line": ""},
        {"pod": "train-1-worker-0", "time": None, "line": "no time"},
    ]


def test_reading_can_be_ended_before_the_pod_ends(kubectl, capsys):
    lines = PodLines(Cluster(kubectl("echo begun; exec sleep 600")), "train-1", POD, follow=True)
    lines.wait(0)
    lines.stop()
    assert capsys.readouterr().out in {"", "[worker-0] begun\n"}


def test_a_reader_that_has_enough_ends_the_command_quietly(kubectl):
    endless = kubectl("exec yes")
    words = [sys.executable, "-c", MANY_LINES_TO_HEAD, str(endless)]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout.readline() == b"[worker-0] y\n"
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 141
