"""The help of every command has examples that the command takes, and docs/user.md has every command's exit statuses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.command_line import parsed, parser
from tests.tables import each_row

if TYPE_CHECKING:
    import argparse

PAGE = Path(__file__).parents[3] / "docs" / "user.md"


def commands() -> dict[str, argparse.ArgumentParser]:
    [action] = [each for each in parser()._actions if each.dest == "command"]
    return dict(action.choices or {})


def examples(command: argparse.ArgumentParser) -> list[str]:
    lines = re.sub(r"\\\n\s*", "", command.epilog or "")
    return re.findall(r"(?:^  |example: |\| |\$\()(athanor [^\n>)#]*)", lines, re.MULTILINE)


@each_row("name", commands())
def test_its_examples_can_be_pasted(name):
    printed = examples(commands()[name])
    assert printed, f"athanor {name} --help has no example"
    for example in printed:
        arguments = parsed(shlex.split(example)[1:])
        assert arguments.command == name


@each_row("name", commands())
def test_its_exit_statuses_are_on_the_page(name):
    table = PAGE.read_text(encoding="utf-8").partition("### Exit status")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert any(re.search(rf"`{name}\b", row) for row in rows), f"docs/user.md has no exit status of {name}"


WITHOUT_JSON = {"dev", "shell", "port-forward", "tensorboard", "completion", "review", "apply", "drift"}
"""A terminal's, a shell's script, a report in Markdown, and the engine's own output."""


@each_row("name", commands())
def test_what_programs_read_is_json_and_the_page_names_the_commands_without_it(name):
    options = {word for action in commands()[name]._actions for word in action.option_strings}
    assert ("--json" in options) == (name not in WITHOUT_JSON)
    page = PAGE.read_text(encoding="utf-8")
    named = page.partition("Without `--json` are")[2].partition(".")[0]
    assert (f"`{name}`" in named) == (name in WITHOUT_JSON)


@each_row("name", commands())
def test_the_help_has_its_exit_statuses(name):
    listed = (commands()[name].epilog or "").partition("exit status:\n")[2]
    statuses = dict(line.split(maxsplit=1) for line in listed.splitlines() if line.strip())
    assert {"0", "2"} <= set(statuses), f"athanor {name} --help does not list its exit statuses"
