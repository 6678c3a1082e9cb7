"""Properties of a resource as plain data, in which a value may be unknown until the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast


@dataclass(frozen=True)
class Unknown:
    """A value that depends on a resource that does not exist yet."""

    path: tuple[str, ...] = ()
    """Its path in the resource's properties."""


Value: TypeAlias = "Unknown | str | int | float | bool | list[Value] | dict[str, Value] | None"


def read(value: Value, *keys: str) -> Value:
    """Follow keys into nested objects; None where one is missing, `Unknown` where the way is not known."""
    for key in keys:
        if isinstance(value, Unknown):
            return value
        value = value.get(key) if isinstance(value, dict) else None
    return value


def each(value: Value) -> list[Value]:
    """Return the elements of a list; an unknown list counts as one unknown element."""
    if isinstance(value, Unknown):
        return [value]
    return value if isinstance(value, list) else []


def entries(value: Value) -> dict[str, Value]:
    """Return the entries of an object; those of an unknown one are an unknown value without a name."""
    if isinstance(value, Unknown):
        return {"": value}
    return value if isinstance(value, dict) else {}


def label(value: Value, default: str = "?") -> str:
    """Return a name for a message."""
    return value if isinstance(value, str) else default


def number(value: Value) -> float | Unknown | None:
    """Return a number, also one that the provider keeps as text; None where there is none.

    Raises:
        ValueError: the text is not a number.
    """
    if isinstance(value, str):
        return float(value)
    return None if isinstance(value, bool) or not isinstance(value, int | float | Unknown) else value


def plain(value: object) -> Value:
    """Return nested mappings and sequences as the data that rules read.

    Anything else that is not a value of JSON (assets, archives) is left out: no rule looks into files.
    """
    if value is None or isinstance(value, str | int | float | bool | Unknown):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[str, object]", value).items()}
    return [plain(item) for item in cast("Sequence[object]", value)] if isinstance(value, Sequence) else None
