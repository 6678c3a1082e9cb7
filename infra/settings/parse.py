"""Validation of a stack's configuration: typed, with defaults, and refused early when wrong. No I/O happens here.

Every field is a key of `Pulumi.<stack>.yaml` under `athanor:`; nested models are objects there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from infra.errors import RefusalError, choices
from infra.settings.stack import Settings
from infra.settings.tree import descriptions, model_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails


_CREDENTIALS = re.compile(r"://[^\s/@]+@")
"""In a URL: messages end up in logs."""


def parse_settings(raw: Mapping[str, object]) -> Settings:
    """Check a stack's configuration, given as key -> decoded value, and return it typed.

    Raises:
        RefusalError: listing every wrong key with its value, the limit and the fix.
    """
    try:
        return Settings.model_validate(dict(raw))
    except ValidationError as error:
        problems = [_describe(problem) for problem in error.errors()]
        raise SettingsError(problems) from None


class SettingsError(RefusalError):
    """One or more wrong keys in the stack's configuration; the message has one line for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        ValueError.__init__(self, "The stack's configuration is invalid:\n" + "\n".join(f"  - {p}" for p in problems))


def _describe(problem: ErrorDetails) -> str:
    key = "athanor:" + ".".join(str(part) for part in problem["loc"])
    if not problem["loc"]:  # two keys that do not fit each other: the message names both
        return "athanor:" + problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"{key}: no such key. Fix: {choices(str(problem['loc'][-1]), _valid_keys(problem['loc'][:-1]))}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error":
        message += f". Fix: give a value that fits; {key} is: {_description(problem['loc'])}"
    without_credentials = _CREDENTIALS.sub("://…@", repr(problem["input"]))
    value = "" if isinstance(problem["input"], dict) else f" = {without_credentials}"
    return f"{key}{value}: {message}"


def _valid_keys(location: tuple[int | str, ...]) -> list[str]:
    return list(model_at(Settings, location).model_fields)


def _description(location: tuple[int | str, ...]) -> str:
    *parents, name = [part for part in location if isinstance(part, str)]
    return descriptions(model_at(Settings, tuple(parents))).get(name, name)
