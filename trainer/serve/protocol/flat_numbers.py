"""Requests whose tensors are flat arrays of numbers, read without a Python object for each number.

A small image has thousands of numbers, which as Python objects cost more than the rest of the request. All other forms
are left to the general reader, which also writes all refusals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simdjson

if TYPE_CHECKING:
    from trainer.serve.model_config import ModelSpec

_MOST_BYTES = 1 << 20
"""The parser keeps memory for the longest text that it has read, some ten times as much."""
_TYPES = {"f": ("d", np.float64), "i": ("i", np.int64), "u": ("u", np.uint64)}
"""Types that the numbers of a tensor are read as, by the kind of its values; a JSON array can hold any of its range."""
_PARSER = simdjson.Parser()


def parse(text: bytes, spec: ModelSpec) -> dict[str, Any] | None:
    """Return the object that orjson would, but with the `data` of each input as an array; for the event loop's thread.

    Returns:
        None where the text is not JSON, or the data of an input not a flat array of numbers that fit its type.
    """
    # simdjson skips a byte order mark, orjson refuses it
    if len(text) > _MOST_BYTES or not text.startswith(b"{"):
        return None
    try:
        return _document(_PARSER.parse(text), text, spec)  # pyright: ignore[reportArgumentType]
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        # RuntimeError: an integer of more than 64 bits
        return None


def _document(parsed: simdjson.Object, text: bytes, spec: ModelSpec) -> dict[str, Any] | None:
    document = _fields(parsed, apart="inputs")
    kinds = {tensor.name: tensor.datatype.kind for tensor in spec.inputs}
    listed: Any = parsed["inputs"]
    inputs = [_input(listed[place], kinds) for place in range(len(listed))]
    # as_buffer also takes nested arrays, even or not: the only brackets may be those that are accounted for
    if text.count(b"[") != 1 + 2 * len(inputs) + isinstance(document.get("outputs"), list):
        return None
    return {**document, "inputs": inputs}


def _input(entry: simdjson.Object, kinds: dict[str, str]) -> dict[str, Any]:
    fields = _fields(entry, apart="data")
    code, kind = _TYPES[kinds[fields["name"]]]
    data: Any = entry["data"]
    return {**fields, "data": np.frombuffer(data.as_buffer(of_type=code), kind)}


def _fields(entry: simdjson.Object, apart: str) -> dict[str, Any]:
    """Return all fields but one.

    Raises:
        ValueError: a name is there twice: of these orjson takes the last one, simdjson the first.
    """
    names = list(entry.keys())
    if len(set(names)) != len(names):
        raise ValueError
    return {name: _plain(entry[name]) for name in names if name != apart}


def _plain(value: Any) -> Any:  # noqa: ANN401  whatever JSON can hold
    if isinstance(value, simdjson.Object):
        return value.as_dict()
    # the package's annotations leave open what is in a list
    return cast("Any", value).as_list() if isinstance(value, simdjson.Array) else value
