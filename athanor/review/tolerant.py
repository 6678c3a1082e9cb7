"""Tolerant accessors for JSON of other programs: a value that is missing or of another type is empty."""

from __future__ import annotations

from typing import TypeGuard


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is an object of JSON."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list of JSON."""
    return isinstance(value, list)


def as_mapping(value: object) -> dict[str, object]:
    """Return an object of JSON; {} for anything else."""
    return value if is_mapping(value) else {}


def as_list(value: object) -> list[object]:
    """Return a list of JSON; [] for anything else."""
    return value if is_list(value) else []


def as_text(value: object) -> str:
    """Return a string of JSON; "" for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return a whole number, which providers also write as a string such as "4"; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def at(value: object, *keys: str) -> object:
    """Return the value at a path of keys; None if the path does not exist."""
    for key in keys:
        value = as_mapping(value).get(key)
    return value
