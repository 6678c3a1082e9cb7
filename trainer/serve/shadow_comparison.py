"""Comparison of two answers to one request: ours as arrays, and the shadow's as bytes, which are not trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainer.serve.datatypes import BYTES
from trainer.serve.errors import RequestError
from trainer.serve.protocol import tensors
from trainer.serve.protocol.tensors import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.client_messages import AnsweredTensor
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec

Reason = Literal["tensor", "class", "value"]
"""Kinds of differences, the gravest first: an output has another shape or type, a row has its largest value in another
place, or a value differs by more than the tolerance."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison of two answers."""

    reason: Reason | None
    """None: they are equal."""
    detail: str
    """The output that differs, and its difference, for the log."""
    difference: float | None
    """Largest absolute difference of two values; None where it cannot be said: other shapes, or no finite number."""


@dataclass(frozen=True, slots=True)
class _Difference:
    detail: str
    largest: float
    other_classes: int
    beyond_tolerance: bool


@dataclass(frozen=True, kw_only=True)
class Comparer:
    """The criteria of equality."""

    tolerance: float | None
    """Largest absolute difference of fractions; None: any."""
    classes: bool
    """The place of the largest fraction of each row must be the same."""

    def compare(self, spec: ModelSpec, ours: Sequence[Array], theirs: Mapping[str, AnsweredTensor]) -> Comparison:
        """Compare all outputs of a model.

        Raises:
            RequestError: the shadow's answer lacks an output, or its bytes are not what it says.
        """
        differences: list[_Difference] = []
        for tensor, array in zip(spec.outputs, ours, strict=True):
            their = theirs.get(tensor.name)
            if their is None:
                raise RequestError(400, f"output {tensor.name!r} is missing")
            if (their.datatype, their.shape) != (tensor.datatype.name, list(array.shape)):
                given = f"{shorten(their.datatype)} {shorten(their.shape)}"
                expected = f"{tensor.datatype.name!r} {list(array.shape)}"
                return Comparison("tensor", f"output {tensor.name!r} is {given}, ours is {expected}", None)
            other = tensors.from_binary(their.data, array.shape, tensor, "output")
            differences.append(self._difference(spec, tensor, array, other))
        return _combined(differences)

    def _difference(self, spec: ModelSpec, tensor: TensorSpec, ours: Array, theirs: Array) -> _Difference:
        equal = ours == theirs
        if tensor.datatype.name == BYTES:
            ours, theirs = np.zeros_like(equal, np.uint8), np.where(equal, 0, 1)
        ours, theirs = tensor.datatype.numbers(ours), tensor.datatype.numbers(theirs)
        is_fraction = tensor.datatype.kind == "f"
        if is_fraction:
            equal |= np.isnan(ours) & np.isnan(theirs)
        with np.errstate(invalid="ignore"):
            apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        largest = float(np.where(equal, 0.0, apart).max(initial=0.0))
        allowed = (np.inf if self.tolerance is None else self.tolerance) if is_fraction else 0.0
        beyond = not np.isfinite(largest) or largest > allowed or not (is_fraction or equal.all())
        other_classes = _other_classes(spec, ours, theirs) if is_fraction and self.classes else 0
        detail = f"output {tensor.name!r}: largest difference {largest:.6g}"
        if other_classes:
            detail += f", another class in {other_classes} rows"
        return _Difference(detail, largest, other_classes, beyond)


def _other_classes(spec: ModelSpec, ours: Array, theirs: Array) -> int:
    """Return the rows whose largest value is in another place; rows as classification has them."""
    if not ours.size:
        return 0
    rows = ours.shape[0] if spec.max_batch_size else 1
    places = (array.reshape(rows, -1).argmax(axis=1) for array in (ours, theirs))
    return int(np.count_nonzero(np.not_equal(*places)))


def _combined(differences: Sequence[_Difference]) -> Comparison:
    largest = [each.largest for each in differences]
    reason: Reason | None = None
    if any(each.other_classes for each in differences):
        reason = "class"
    elif any(each.beyond_tolerance for each in differences):
        reason = "value"
    named = [each.detail for each in differences if each.other_classes or each.beyond_tolerance]
    return Comparison(reason, "; ".join(named), max(largest) if np.isfinite(largest).all() else None)
