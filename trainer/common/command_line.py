"""The one way in which the programs of trainer/ read their arguments: a frozen dataclass describes them.

Not those of `trainer/image`, which run before any package is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import tyro

if TYPE_CHECKING:
    from collections.abc import Sequence

Config = TypeVar("Config")


def parse(kind: type[Config], program: str, arguments: Sequence[str] | None = None) -> Config:
    """Read the command line; every field is `--field_name` (or `--field-name`), also those of fields' dataclasses.

    Args:
        kind: A dataclass whose docstrings become the help text; its `__post_init__` raises ValueError for wrong values.
        program: The module that is run, such as `trainer.train`.
        arguments: The words of the command line; None takes those of this process.

    Raises:
        SystemExit: 0 after `--help`, 2 after reporting which value is wrong, its limit and the fix.
    """
    # our help texts are docstrings: looking for comments, too, would make parsing half as long again
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.HelptextFromCommentsOff)
    return tyro.cli(kind, prog=f"python -m {program}", args=arguments, use_underscores=True, config=config)
