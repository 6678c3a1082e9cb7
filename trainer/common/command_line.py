"""Command lines of the programs of trainer/, described by frozen dataclasses.

The programs of `trainer/image` do without it: they run before any package is installed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeVar

import tyro

if TYPE_CHECKING:
    from collections.abc import Sequence

Config = TypeVar("Config")

_PIPE_CLOSED = 141
"""Exit status that a shell reports for SIGPIPE, which ends other programs there."""


def parse(kind: type[Config], program: str, arguments: Sequence[str] | None = None) -> Config:
    """Read the command line; every field is `--field_name` (or `--field-name`), also those of fields' dataclasses.

    Args:
        kind: A dataclass whose docstrings become the help text; its `__post_init__` raises ValueError for wrong values.
        program: The module that is run, such as `trainer.train`.
        arguments: The words of the command line; None takes those of this process.

    Raises:
        SystemExit: 0 after `--help`, 2 after reporting which value is wrong, its limit and the fix, 141 where nobody
            reads the help to its end.
    """
    # our help texts are docstrings: looking for comments, too, would make parsing half as long again
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.HelptextFromCommentsOff)
    try:
        try:
            return tyro.cli(kind, prog=f"python -m {program}", args=arguments, use_underscores=True, config=config)
        except SystemExit:
            sys.stdout.flush()
            raise
    except BrokenPipeError:  # a `head` that has enough; what is still unwritten must not fail at the end of Python
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_PIPE_CLOSED) from None
