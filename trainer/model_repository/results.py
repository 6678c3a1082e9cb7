"""Flattening of a program's nested results into a sequence of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Path = tuple[str | int, ...]
"""Keys of dicts, names of fields, and places in tuples and lists, from the outside in."""


def leaves(result: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield each value that is not a container, with its path, depth first. None is left out, a list of text is one."""
    if isinstance(result, dict):
        items = cast("Mapping[str, object]", result).items()
    elif isinstance(result, (tuple, list)) and not is_text(cast("object", result)):
        values = cast("Sequence[object]", result)
        items = zip(cast("Sequence[str]", getattr(values, "_fields", range(len(values)))), values, strict=True)
    else:
        if result is not None:
            yield path, result
        return
    for key, value in items:
        yield from leaves(value, (*path, key))


def full_name(path: Path) -> str:
    """Return the name of a value by its place, as Triton names outputs of compiled programs: `RESULT[1][0][boxes]`."""
    return "RESULT" + "".join(f"[{key}]" for key in path)


def is_text(value: object) -> bool:
    """Return whether a value is a list of text, as TorchScript's `List[str]` is in Python."""
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))
