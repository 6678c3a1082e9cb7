"""Checks of arguments that every workload shares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
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


def check_path(field_name: str, path: str) -> None:
    """Refuse what is no plain absolute path of a container.

    Raises:
        RefusalError: naming the field and the value.
    """
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        limit = "must be an absolute path of letters, digits, '.', '_' and '-', without '.' and '..' as parts"
        raise RefusalError(field_name, path, limit, "write it out, such as /scratch/cache")


def check_environment(field_name: str, environment: Mapping[str, str]) -> None:
    """Refuse names that Kubernetes refuses, and values that are no text.

    Raises:
        RefusalError: naming the variable.
    """
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(name):
            limit = "must consist of letters, digits and '_', and not start with a digit"
            raise RefusalError(field_name, name, limit, "rename the variable")
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users' programs are not checked
            raise RefusalError(f"{field_name}[{name!r}]", value, "is no text", f'write "{value}"')


def check_labels(field_name: str, labels: Mapping[str, str]) -> None:
    """Refuse what Kubernetes does not accept as a label, and names of the platform's own.

    Raises:
        RefusalError: naming the label.
    """
    for name, value in labels.items():
        if not _LABEL.fullmatch(name):
            raise RefusalError(field_name, name, "is no label's name", "write team, or example.com/team")
        if name.partition("/")[0].endswith("athanor.dev"):
            raise RefusalError(field_name, name, "belongs to the platform", "choose a prefix of your own")
        if not _LABEL_VALUE.fullmatch(value):
            limit = "must be at most 63 of letters, digits, '-', '_' and '.', with a letter or digit at both ends"
            raise RefusalError(f"{field_name}[{name!r}]", value, limit, "shorten it, or replace what is not allowed")
