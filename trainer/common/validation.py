"""Checks that all configurations share: the message holds the field, the value, the limit and thereby the fix."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_NAMES = 5
"""Most names of a list in a message."""
NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?")


class SettingsError(ValueError):
    """Settings that fit neither each other nor the ranks, the data or the machine; the message says what would fit.

    For what is known only after the command line was read: a program ends with the message, without a traceback.
    """


def at_least(field: str, value: float, minimum: float) -> None:
    """Refuse a number below `minimum`, or one that is not finite.

    Raises:
        ValueError: with field, value and limit.
    """
    if not math.isfinite(value) or value < minimum:
        raise ValueError(f"{field}={value}: must be at least {minimum}")


def between(field: str, value: float, minimum: float, maximum: float) -> None:
    """Refuse a number outside `minimum`..`maximum`, both allowed.

    Raises:
        ValueError: with field, value and limits.
    """
    if not minimum <= value <= maximum:
        raise ValueError(f"{field}={value}: must be from {minimum} to {maximum}")


def more_than(field: str, value: float, limit: float) -> None:
    """Refuse a number that is not finite or not greater than `limit`.

    Raises:
        ValueError: with field, value and limit.
    """
    if not math.isfinite(value) or value <= limit:
        raise ValueError(f"{field}={value}: must be more than {limit}")


def below_one(field: str, value: float) -> None:
    """Refuse a share outside 0..1, or 1 itself.

    Raises:
        ValueError: with field, value and limits.
    """
    if not 0 <= value < 1:
        raise ValueError(f"{field}={value}: must be from 0 to below 1")


def file_name(field: str, value: str) -> None:
    """Refuse a name that could leave its folder or cannot be a Kubernetes label value.

    Raises:
        ValueError: with field, value and the allowed form.
    """
    if not NAME_PATTERN.fullmatch(value):
        allowed = "1 to 63 of a-z 0-9 - _ . beginning and ending with a letter or digit"
        raise ValueError(f"{field}={value!r}: must be {allowed}")


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list that may be long, and how many there are besides."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def changed_settings(saved: dict[str, Any], current: dict[str, Any]) -> str:
    """Name each setting that differs, with both values; an empty string when none does.

    What only one side has is named if nothing else differs: a run of another model has other settings, too.
    """
    both = sorted(saved.keys() & current.keys())
    changed = [f"{name}={current[name]!r} (was {saved[name]!r})" for name in both if saved[name] != current[name]]
    if not changed:
        changed = [f"{name}={current[name]!r} (was unknown)" for name in sorted(current.keys() - saved.keys())]
        changed += [f"{name} is unknown now (was {saved[name]!r})" for name in sorted(saved.keys() - current.keys())]
    return ", ".join(changed)
