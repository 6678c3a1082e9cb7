"""What the benchmark of submissions measures of questions, with programs in place of a cluster."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest
from rich.console import Console

from athanor.command_line import parser
from benchmarks import submission
from benchmarks.rounds import Times, interleaved_times
from infra.errors import RefusalError

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_cpu_time_is_that_of_the_processes_and_of_those_that_they_wait_for():
    busy = [sys.executable, "-c", BUSY]
    inside = [sys.executable, "-c", f"import subprocess; subprocess.run({busy!r}, check=True)"]
    variants = {
        "child of a child": lambda: subprocess.run(inside, check=True),
        "no process": lambda: None,
    }
    cleaned = []
    times = interleaved_times(variants, 1, cleaned.append)
    [busy_time], [idle] = times["child of a child"], times["no process"]
    assert busy_time.cpu_seconds >= 0.3
    assert busy_time.wall_seconds >= 0.3
    assert idle.cpu_seconds == 0
    assert cleaned == ["child of a child", "no process"] * 2


def test_the_questions_are_commands_and_have_rows_with_their_cpu_time(monkeypatch):
    asked = []

    class User:
        """Asks and submits nothing."""

        def __init__(self) -> None:
            self.environment = {"PATH": "/nowhere"}

        def submit(self, *_: str) -> None:
            pass

        create = edit = submit

        def ask(self, *words: str) -> None:
            asked.append(words)

        @contextmanager
        def run(self, name: str):
            yield {"apiVersion": "v1", "kind": "Job", "spec": {}, "metadata": {"labels": {"of": name}}}

    monkeypatch.setattr(submission, "ROUNDS", 1)
    seconds, times = submission._measured(User())
    assert asked == [*submission._QUESTIONS] * 2
    for words in submission._QUESTIONS:
        parser().parse_args(words)
    assert {"athanor status", "athanor why peer", "athanor logs peer"} <= set(times)
    measured = {"athanor why peer": [Times(wall_seconds=1.5, cpu_seconds=0.25)]}
    console = Console(width=120)
    with console.capture() as capture:
        console.print(submission._table(seconds, measured))
    [row] = [line for line in capture.get().splitlines() if "why" in line]
    assert "1.50 s (1.50 to 1.50)" in row
    assert "0.25 s (0.25 to 0.25)" in row


def test_a_question_that_is_not_answered_ends_the_benchmark(tmp_path, monkeypatch):
    user = submission._User(tmp_path, {})
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@" > words; echo refused >&2; exit 1\n', encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(submission.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RefusalError, match=r"why peer': ended with 1\. Fix: refused"):
        user.ask("why", "peer")
    assert (user.folder / "words").read_text(encoding="utf-8") == "-m athanor why peer\n"
