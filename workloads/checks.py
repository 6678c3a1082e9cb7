"""Checks of arguments that every workload shares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MAXIMUM_NAME_LENGTH = 40


def check_name(field_name: str, name: str) -> None:
    """Refuse names that cannot become a pod's host name (RFC 1035 label, with room for suffixes).

    Raises:
        RefusalError: the name does not fit.
    """
    if len(name) > _MAXIMUM_NAME_LENGTH or not _NAME.fullmatch(name):
        raise RefusalError(
            field_name,
            name,
            f"must be at most {_MAXIMUM_NAME_LENGTH} of a-z, 0-9 and '-', starting with a letter",
            "choose a shorter name in lower case",
        )


def check_range(field_name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside low..high.

    Raises:
        RefusalError: naming the field, the value and both limits.
    """
    if not low <= value <= high:
        raise RefusalError(field_name, value, f"must be {low} to {high}", f"choose a number from {low} to {high}")


def check_command(field_name: str, command: Sequence[str]) -> None:
    """Refuse a command written as one string, which would be run letter by letter.

    Raises:
        RefusalError: naming the field and the value.
    """
    if isinstance(command, str):
        raise RefusalError(
            field_name, command, "is one string", 'write one item per word: ("-m", "trainer.train", "--epochs=30")'
        )
