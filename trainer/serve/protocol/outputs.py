"""The output tensors of an answer, in any encoding; classification turns one into text.

Source: Triton, "Classification Extension": `value:index` of the largest values, in descending order, as BYTES, followed
by `:label` if the class has a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.serve.datatypes import BYTES
from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.infer_request import RequestedOutput
    from trainer.serve.protocol.tensors import Array


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One tensor of the answer."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    array: Array

    def raw(self) -> bytes:
        """Return the bytes of a binary tensor."""
        return tensors.to_binary(self.array)

    def values(self) -> Array | list[str]:
        """Return the values for JSON, flat."""
        flat = self.array.reshape(-1)
        return [element.decode() for element in flat] if flat.dtype.kind == "O" else flat


def output_tensor(output: RequestedOutput, spec: ModelSpec, results: list[Array]) -> OutputTensor:
    """Return a model's output in the form that a client requests."""
    tensor = spec.outputs[output.index]
    array = np.ascontiguousarray(results[output.index])
    if not output.classes:
        return OutputTensor(tensor.name, tensor.datatype.name, array.shape, array)
    rows = tensor.datatype.numbers(array).reshape(array.shape[0] if spec.max_batch_size else 1, -1)
    count = min(output.classes, rows.shape[1])
    texts = [text.encode() for row in rows for text in _largest(row, count, tensor.labels)]
    shape = (len(rows), count) if spec.max_batch_size else (count,)
    return OutputTensor(tensor.name, BYTES, shape, tensors.array_of(texts, shape))


def _largest(row: Array, count: int, labels: tuple[str, ...]) -> list[str]:
    places = _descending(row)[:count]
    # Python's own numbers: NumPy formats integers as doubles, which are exact up to 2**53 alone
    values = [f"{value:.6f}" if isinstance(value, float) else str(int(value)) for value in row[places].tolist()]
    return [f"{value}:{place}{_label(labels, place)}" for value, place in zip(values, places, strict=True)]


def _descending(row: Array) -> Array:
    """Return the places of the largest values first; equal ones stay in order, and NaN comes last."""
    if row.dtype.kind == "f":
        return np.argsort(-row, kind="stable")
    # unsigned numbers have no negatives, and the smallest of the others none either
    return len(row) - 1 - np.argsort(row[::-1], kind="stable")[::-1]


def _label(labels: tuple[str, ...], place: int) -> str:
    return f":{labels[place]}" if place < len(labels) and labels[place] else ""
