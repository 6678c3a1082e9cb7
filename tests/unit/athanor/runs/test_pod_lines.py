"""What pods write, on a terminal, with a kubectl of this test."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from athanor.runs.job import Log
from athanor.runs.pod_lines import PodLines
from tests.fixtures.recorded_stack import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

LOG = Log(job_name="train-1", pod="train-1-worker-0", container="worker", is_program=True)
TIME = "2026-01-01T10:00:00.5Z"
HOSTILE = rf"{TIME} \033]0;title\007\033[31mred\033[0m 50%%\r100%% \342\200\256 \377\n{TIME} last"
MANY_LINES_TO_HEAD = """
import sys
from types import SimpleNamespace
from athanor import command_line
from athanor.runs import logs, questions

class Cluster:
    prefix = [sys.argv[1]]
    def find(self, kind, name):
        return {"metadata": {"name": name}, "status": {"state": {"phase": "Completed"}}}
    def items(self, kind, selector):
        return [{**POD, "status": {"phase": "Succeeded"}}]

POD = {"metadata": {"name": "train-1-worker-0", "uid": "u"}, "spec": {"containers": [{"name": "worker"}]}}
questions.run = lambda given: questions.exit_status("logs", lambda: logs.logs(given, Cluster(), "train-1"))
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
    lines = PodLines(Cluster(kubectl(f"printf '{HOSTILE}'")), LOG, follow=False)
    lines.wait()
    lines.stop()
    assert capsys.readouterr().out == "[worker-0] 100% \\u202e \\xff\n[worker-0] last\n"


def test_for_programs_each_line_has_its_pod_and_its_time_and_stays_as_it_was(kubectl, capsys):
    script = (
        r"case $* in *--timestamps*) printf '2026-01-01T10:00:00.5Z a\033[31m b\n"
        r"2026-01-01T10:00:01+08:00 \n' ;; esac"
    )
    lines = PodLines(Cluster(kubectl(script)), LOG, follow=False, as_json=True)
    lines.wait()
    lines.stop()
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    of = {"pod": "train-1-worker-0", "container": "worker"}
    assert [json.loads(line) for line in printed.splitlines()] == [
        {**of, "time": "2026-01-01T10:00:00.5Z", "line": "a\x1b[31m b"},
        {**of, "time": "2026-01-01T10:00:01+08:00", "line": ""},
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            'Error from server (NotFound): pods "train-1-worker-0" not found',
            "athanor: the log of worker-0 prepare was deleted with the pod; its earlier output is in the log store",
        ),
        ("error: unexpected EOF", "athanor: the log of worker-0 prepare cannot be read now (error: unexpected EOF)\n"),
        (
            "unable to retrieve container logs for containerd://0a1b",
            "athanor: the log of worker-0 prepare was deleted with the pod; its earlier output is in the log store",
        ),
    ],
)
@pytest.mark.parametrize("stream", ["&2", "&1"], ids=["kubectl", "kubelet"])
def test_what_kubectl_and_kubelet_say_is_explained_and_no_line_of_the_pod(kubectl, capsys, stream, said, expected):
    log = Log(job_name="train-1", pod="train-1-worker-0", container="prepare", is_program=False)
    lines = PodLines(Cluster(kubectl(f"echo '{TIME} said'; printf '%s' '{said}' >{stream}")), log, follow=False)
    lines.wait()
    lines.stop()
    printed = capsys.readouterr()
    assert printed.out == "[worker-0 prepare] said\n"
    assert printed.err.startswith(expected)


def test_reading_can_be_ended_before_the_pod_ends(kubectl, capsys):
    lines = PodLines(Cluster(kubectl(f"echo '{TIME} begun'; exec sleep 600")), LOG, follow=True)
    lines.wait(0)
    lines.stop()
    assert capsys.readouterr().out in {"", "[worker-0] begun\n"}


def test_a_reader_that_has_enough_ends_the_command_quietly(kubectl):
    endless = kubectl(f"exec yes '{TIME} y'")
    words = [sys.executable, "-c", MANY_LINES_TO_HEAD, str(endless)]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout.readline() == b"[worker-0] y\n"
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 141
