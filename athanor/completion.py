"""`athanor completion`: a shell's script that completes commands, options and their choices, from the parser itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import shtab

from athanor.command_line import parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_PATHS = {"FILE": shtab.FILE, "FOLDER": shtab.DIRECTORY}
"""What an argument is, by the name that its help has for it."""


def run(arguments: argparse.Namespace) -> int:
    """Print the script; return 0."""
    whole = parser()
    for action in _arguments(whole):
        if action.metavar in _PATHS:
            action.complete = _PATHS[action.metavar]  # pyright: ignore[reportAttributeAccessIssue]
    sys.stdout.write(shtab.complete(whole, arguments.shell) + "\n")
    return 0


def _arguments(of: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in of._actions:  # noqa: SLF001 - argparse has no other way to ask
        yield action
        if isinstance(action.choices, dict):
            for each in cast("dict[str, argparse.ArgumentParser]", action.choices).values():
                yield from _arguments(each)
