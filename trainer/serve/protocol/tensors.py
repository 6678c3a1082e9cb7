"""One tensor: JSON numbers or raw bytes to a NumPy array of exactly the declared type and shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainer.serve.errors import RequestError

if TYPE_CHECKING:
    from trainer.serve.tensor_spec import TensorSpec

Array = NDArray[Any]

_SHOWN_CHARACTERS = 60


def shorten(value: object) -> str:
    """Return a client's value for an error message, cut to a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def from_binary(data: memoryview, shape: tuple[int, ...], spec: TensorSpec, kind: str = "input") -> Array:
    """Return a read-only view of little-endian, row-major bytes.

    Raises:
        RequestError: 400 where the size does not fit the shape.
    """
    expected = math.prod(shape) * spec.datatype.numpy.itemsize
    if len(data) != expected:
        needs = f"shape {list(shape)} of {spec.datatype.name} needs {expected}"
        raise RequestError(400, f"{kind} {spec.name!r}: {len(data)} bytes; {needs}")
    array = np.frombuffer(data, dtype=spec.datatype.numpy)
    if spec.datatype.numpy.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise RequestError(400, f"{kind} {spec.name!r}: a BOOL byte must be 0 or 1")
    return array.reshape(shape)


def from_json(data: list[Any] | Array, shape: tuple[int, ...], spec: TensorSpec) -> Array:
    """Return the numbers of a flat or nested JSON array.

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
    elif spec.datatype.numpy.kind != "b" and isinstance(data, list) and _has_booleans(data):
        contents = "booleans among numbers"
    if contents:
        raise RequestError(
            400, f"input {spec.name!r}: data holds {contents}: {spec.datatype.name} needs {_needs(spec)}"
        )
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
    values: Array = np.asarray(data)
    if spec.datatype.name == "UINT64" and values.dtype.kind == "f":
        # numbers below and above 2**63 become float64 together, which rounds them
        exact = np.array(data, dtype=object)
        if all(type(value) is int and value >= 0 for value in exact.flat):
            return exact.astype(np.uint64)
    return values


def _has_booleans(data: list[Any]) -> bool:
    """Tell whether a list, or one within it, holds true or false, which NumPy takes for 1 and 0 next to numbers."""
    types = set(map(type, data))
    return bool in types or (list in types and any(_has_booleans(item) for item in data))


def _contents(values: Array) -> str:
    names = {"O": "null, objects or huge numbers", "U": "text", "b": "booleans", "f": "fractions"}
    return names.get(values.dtype.kind, str(values.dtype))


def _needs(spec: TensorSpec) -> str:
    return {"f": "numbers", "b": "true or false"}.get(spec.datatype.numpy.kind, "whole numbers")
