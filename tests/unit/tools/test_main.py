"""The commands behind the Makefile, and how they end."""

from __future__ import annotations

import argparse
import os
import re
import subprocess

import pytest

import tools.__main__ as program
from infra.errors import RefusalError
from tests.fixtures.recorded_stack import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))


def _commands() -> set[str]:
    [choices] = [a.choices for a in program._parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return set(choices)


def test_make_and_the_tools_know_the_same_commands():
    used = set(re.findall(r"-m tools ([a-z-]+)", MAKEFILE))
    assert used == _commands()


def test_every_make_target_is_described_and_phony():
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    described = set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, re.MULTILINE))
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert targets == set(phony.split())
    assert targets - described == {"venv"}


def _make(*words: str, **shell: str) -> str:
    # What a test run under make hands down would count as said on the command line.
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    command = ["make", "--dry-run", *words]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**own, **shell}, check=True, capture_output=True, text=True
    ).stdout


def test_only_what_is_said_to_make_leads_to_another_cluster():
    shell = {"KUBECONFIG": "/of/the/shell", "CONTEXT": "of-the-shell", "NAMESPACE": "of-the-shell"}
    assert "of-the-shell" not in _make("status", **shell)
    assert "/of/the/shell" not in _make("status", **shell)
    said = _make("why", "JOB=run", "STACK=dev", "KUBECONFIG=/a b", "CONTEXT=c", "NAMESPACE=n", **shell)
    assert "-m tools why --stack=dev '--kubeconfig=/a b' '--context=c' '--namespace=n' \"run\"" in said


def test_flags_of_make_are_flags_of_the_tools():
    said = _make("logs", "JOB=run", "FOLLOW=1", "TIMESTAMPS=1")
    assert re.search(r'--follow --timestamps +"run"', said)
    assert '--past "run"' in _make("logs", "JOB=run", "PAST=1")
    assert "'--since=2d' '--limit=7'" in _make("search-logs", "QUERY=x", "SINCE=2d", "LIMIT=7")
    assert '--force "run"' in _make("rerun", "JOB=run", "FORCE=1")


def test_no_shell_reads_a_query():
    assert "touch" not in _make("search-logs", "QUERY='; touch x; \"`touch y`")


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_targets_that_exist(page):
    """`make <target>` stands in code: between backticks or at the beginning of a line of a block."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    named = re.findall(r"(?:`|^[$ ]*)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


def test_the_readme_begins_with_up_and_down():
    readme = PAGES[0].read_text(encoding="utf-8")
    assert "make up" in readme
    assert "make down" in readme


def _ending(monkeypatch, capsys, error: BaseException) -> tuple[int, str]:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(program.environment, "status", fail)
    status = program.main(["status"])
    return status, capsys.readouterr().err


def test_an_expected_failure_is_told_in_its_own_words(monkeypatch, capsys, tmp_path):
    refusal = RefusalError("workers", 0, "must be [1] to [/64]", "choose more")
    status, said = _ending(monkeypatch, capsys, refusal)
    assert status == 1
    assert f"Failed: {refusal}" in said
    assert f"Details: {tmp_path / 'home' / 'logs'}" in said
    assert "Traceback" not in said


def test_an_interrupt_says_how_to_go_on(monkeypatch, capsys):
    status, said = _ending(monkeypatch, capsys, KeyboardInterrupt())
    assert status == 130
    assert "`make up` continues" in said


def test_a_mistake_of_ours_is_not_hidden(monkeypatch, capsys):
    with pytest.raises(ZeroDivisionError):
        _ending(monkeypatch, capsys, ZeroDivisionError())


def test_an_image_number_is_a_number(capsys):
    with pytest.raises(SystemExit):
        program.main(["predict", "seven"])
    assert "invalid int value" in capsys.readouterr().err
