"""One tensor: JSON values or raw bytes to a NumPy array of exactly the declared type and shape, and back to bytes."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainer.serve.datatypes import BYTES
from trainer.serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.tensor_spec import TensorSpec

Array = NDArray[Any]

_SHOWN_CHARACTERS = 60
_LENGTH_BYTES = 4


def shorten(value: object) -> str:
    """Return a client's value for an error message, cut to a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def from_binary(data: memoryview, shape: tuple[int, ...], spec: TensorSpec, kind: str = "input") -> Array:
    """Return a read-only view of little-endian, row-major bytes, or the elements of BYTES, each after its length.

    Raises:
        RequestError: 400 where the size does not fit the shape.
    """
    if spec.datatype.name == BYTES:
        try:
            return texts(data, shape)
        except ValueError as error:
            raise RequestError(400, f"{kind} {spec.name!r}: {error}") from None
    expected = math.prod(shape) * spec.datatype.numpy.itemsize
    if len(data) != expected:
        needs = f"shape {list(shape)} of {spec.datatype.name} needs {expected}"
        raise RequestError(400, f"{kind} {spec.name!r}: {len(data)} bytes; {needs}")
    array = np.frombuffer(data, dtype=spec.datatype.numpy)
    if spec.datatype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise RequestError(400, f"{kind} {spec.name!r}: a BOOL byte must be 0 or 1")
    return array.reshape(shape)


def texts(data: memoryview, shape: tuple[int, ...]) -> Array:
    """Return the elements of a tensor of BYTES: in the data each comes after its length in 4 bytes, little-endian.

    Raises:
        ValueError: the data are not so many elements.
    """
    count = math.prod(shape)
    elements: list[bytes] = []
    begin = 0
    while begin < len(data) and len(elements) <= count:
        text = begin + _LENGTH_BYTES
        end = text + int.from_bytes(data[begin:text], "little")
        if max(text, end) > len(data):
            raise ValueError(
                f"{len(data)} bytes end within element {len(elements)}: each comes after its length in 4 bytes"
            )
        elements.append(bytes(data[text:end]))
        begin = end
    if len(elements) != count:
        given = f"more than {count}" if begin < len(data) else len(elements)
        raise ValueError(f"{given} elements; shape {list(shape)} needs {count}")
    return array_of(elements, shape)


def array_of(elements: Sequence[bytes], shape: tuple[int, ...]) -> Array:
    """Return a tensor of BYTES."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)


def binary_size(array: Array) -> int:
    """Return how many bytes `to_binary` makes."""
    if array.dtype.kind != "O":
        return array.nbytes
    elements: list[bytes] = array.ravel().tolist()
    return sum(_LENGTH_BYTES + len(element) for element in elements)


def to_binary(array: Array) -> bytes:
    """Return little-endian, row-major bytes; each element of BYTES after its length in 4 bytes."""
    if array.dtype.kind != "O":
        return array.tobytes()
    elements: list[bytes] = array.ravel().tolist()
    return b"".join(part for element in elements for part in (struct.pack("<I", len(element)), element))


def from_json(data: list[Any] | Array, shape: tuple[int, ...], spec: TensorSpec) -> Array:
    """Return the numbers, or the text of BYTES, in a flat or nested JSON array.

    Raises:
        RequestError: 400 where their count, kind or range does not fit; null and text are never numbers.
    """
    try:
        values = _to_array(data, spec)
    except (ValueError, OverflowError):
        raise RequestError(400, f"input {spec.name!r}: data is nested unevenly. Fix: send it flat") from None
    count = math.prod(shape)
    if values.size != count:
        raise RequestError(400, f"input {spec.name!r}: {values.size} values; shape {list(shape)} needs {count}")
    if values.ndim > 1 and values.shape != shape:
        raise RequestError(
            400,
            f"input {spec.name!r}: data is nested as {list(values.shape)}; shape is {list(shape)}. Fix: send it flat",
        )
    contents = ""
    if values.dtype.kind not in spec.datatype.json_kinds:
        contents = _contents(values)
    elif spec.datatype.name == BYTES and not all(type(value) is str for value in values.flat):
        contents = "other values than text"
    elif spec.datatype.kind in "fiu" and isinstance(data, list) and _has_booleans(data):
        contents = "booleans among numbers"
    if contents:
        raise RequestError(
            400, f"input {spec.name!r}: data holds {contents}: {spec.datatype.name} needs {_needs(spec)}"
        )
    if spec.datatype.name == BYTES:
        return array_of([value.encode() for value in values.flat], shape)
    return from_numbers(values, spec).reshape(shape)


def from_numbers(values: Array, spec: TensorSpec) -> Array:
    """Return numbers in the type of a tensor.

    Raises:
        RequestError: 400 where one is outside the range of the type.
    """
    target = spec.datatype.numpy
    if target.kind == "b":
        return values
    limits = np.iinfo(target) if target.kind in "iu" else np.finfo(target)
    # Python numbers: NumPy would round the limit to the type of the values
    smallest, largest = values.min().item(), values.max().item()
    low, high = (int, int) if target.kind in "iu" else (float, float)
    if smallest < low(limits.min) or largest > high(limits.max):
        outside = smallest if smallest < low(limits.min) else largest
        raise RequestError(
            400, f"input {spec.name!r}: value {outside}: {spec.datatype.name} holds {limits.min} to {limits.max}"
        )
    return values.astype(target, copy=False)


def _to_array(data: list[Any] | Array, spec: TensorSpec) -> Array:
    """Return the values in the type that NumPy finds for them."""
    values: Array = np.asarray(data, object if spec.datatype.name == BYTES else None)
    if spec.datatype.name == "UINT64" and values.dtype.kind == "f":
        # numbers below and above 2**63 become float64 together, which rounds them
        exact = np.array(data, dtype=object)
        if all(type(value) is int and value >= 0 for value in exact.flat):
            return exact.astype(np.uint64)
    return values


def _has_booleans(data: list[Any]) -> bool:
    """Return whether a list, or one within it, holds true or false, which NumPy takes for 1 and 0 next to numbers."""
    types = set(map(type, data))
    return bool in types or (list in types and any(_has_booleans(item) for item in data))


def _contents(values: Array) -> str:
    names = {"O": "null, objects or huge numbers", "U": "text", "b": "booleans", "f": "fractions"}
    return names.get(values.dtype.kind, str(values.dtype))


def _needs(spec: TensorSpec) -> str:
    return {"f": "numbers", "b": "true or false", "O": "text"}.get(spec.datatype.kind, "whole numbers")
