"""The help of every command has examples that the command takes, and docs/user.md has every command's exit statuses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from athanor.command_line import parser

if TYPE_CHECKING:
    import argparse

PAGE = Path(__file__).parents[3] / "docs" / "user.md"


def commands() -> dict[str, argparse.ArgumentParser]:
    [action] = [each for each in parser()._actions if each.dest == "command"]
    return dict(action.choices or {})


def examples(command: argparse.ArgumentParser) -> list[str]:
    lines = re.sub(r"\\\n\s*", "", command.epilog or "")
    return re.findall(r"(?:^  |example: |\| |\$\()(athanor [^\n>)#]*)", lines, re.MULTILINE)


@pytest.mark.parametrize("name", commands())
def test_its_examples_can_be_pasted(name):
    printed = examples(commands()[name])
    assert printed, f"athanor {name} --help has no example"
    for example in printed:
        arguments = parser().parse_args(shlex.split(example)[1:])
        assert arguments.command == name


@pytest.mark.parametrize("name", commands())
def test_its_exit_statuses_are_on_the_page(name):
    table = PAGE.read_text(encoding="utf-8").partition("### Exit status")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert any(re.search(rf"`{name}\b", row) for row in rows), f"docs/user.md has no exit status of {name}"


@pytest.mark.parametrize(
    "name", ["run", "sweep", "runs", "status", "watch", "compare", "curves", "why", "rerun", "leftovers"]
)
def test_what_programs_read_is_json(name):
    assert "--json" in commands()[name].format_help()
