"""A decoded inference request, and the checks against its model, independent of its encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from trainer.serve.datatypes import BF16, BYTES
from trainer.serve.errors import RequestError
from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.tensor_spec import TensorSpec


@dataclass(frozen=True, kw_only=True)
class RequestedOutput:
    """An output the client wants."""

    index: int
    """Place in the model's outputs."""
    binary: bool
    """Whether it comes as bytes after the JSON, not as numbers in it."""
    classes: int = 0
    """The so many largest values with their places, instead of the tensor; 0: the tensor."""


@dataclass(frozen=True, kw_only=True)
class InferRequest:
    """A request that fits the model."""

    id: str | None
    inputs: list[tensors.Array]
    """Inputs in the model's order."""
    outputs: list[RequestedOutput]
    rows: int
    """Size of the batch dimension; 1 for a model without one."""
    priority: int = 0
    """Priority from 1, the highest; 0: the model's default."""
    timeout_us: int = 0
    """Longest wait in the queue, where the model's configuration allows to ask for it; 0: none asked for."""


def checked_shape(value: object, spec: TensorSpec) -> tuple[int, ...]:
    """Return the sizes of an input.

    Raises:
        RequestError: 400 where they are not sizes, or not those of the model.
    """
    sizes = cast("list[int]", value)
    if not isinstance(value, list) or not _matches(sizes, spec.shape):
        expected = f"{list(spec.shape)} (-1: any size from 1)"
        raise RequestError(400, f"input {spec.name!r}: shape={tensors.shorten(sizes)}: must be {expected}")
    return tuple(sizes)


def checked_datatype(value: object, spec: TensorSpec) -> None:
    """Refuse an input of another type than the model's.

    Raises:
        RequestError: 400 with the type that it must have.
    """
    if value != spec.datatype.name:
        excerpt = tensors.shorten(value)
        raise RequestError(400, f"input {spec.name!r}: datatype={excerpt}: must be {spec.datatype.name!r}")


def check_names(field: str, names: Sequence[object], known: Sequence[str]) -> None:
    """Refuse unknown and repeated names of inputs or outputs.

    Raises:
        RequestError: 400 with the place of the wrong one.
    """
    seen: set[str] = set()
    for place, name in enumerate(names):
        if not isinstance(name, str) or name not in known:
            raise RequestError(400, f"{field}[{place}].name={tensors.shorten(name)}: must be one of {list(known)}")
        if name in seen:
            raise RequestError(400, f"{field}: {name!r} is there twice")
        seen.add(name)


def check_complete(names: Sequence[str], spec: ModelSpec) -> None:
    """Refuse a request that lacks an input.

    Raises:
        RequestError: 400 with the inputs that are missing.
    """
    known = [tensor.name for tensor in spec.inputs]
    if missing := [name for name in known if name not in names]:
        raise RequestError(400, f"inputs {missing} are missing; the model takes {known}")


def check_outputs(outputs: Sequence[RequestedOutput], spec: ModelSpec) -> None:
    """Refuse outputs in a form that their type does not have.

    Raises:
        RequestError: 400 with the form that it has.
    """
    for output in outputs:
        tensor = spec.outputs[output.index]
        if output.classes and tensor.datatype.name == BYTES:
            raise RequestError(400, f"output {tensor.name!r}: classification of BYTES: must be numbers")
        if tensor.datatype.name == BF16 and not (output.binary or output.classes):
            fix = 'Fix: "parameters": {"binary_data_output": true}'
            raise RequestError(400, f"output {tensor.name!r}: BF16 has no JSON form. {fix}")


def checked_rows(inputs: list[tensors.Array], spec: ModelSpec) -> int:
    """Return the size of the batch dimension, which all inputs share.

    Raises:
        RequestError: 400 where they differ, or the batch is larger than the model's limit.
    """
    if spec.max_batch_size == 0:
        return 1
    rows = {array.shape[0] for array in inputs}
    if len(rows) != 1:
        raise RequestError(400, f"inputs have batches of different sizes: {sorted(rows)}")
    (count,) = rows
    if count > spec.max_batch_size:
        raise RequestError(400, f"batch of {count}; limit: {spec.max_batch_size}. Fix: send it in parts")
    return count


def _matches(sizes: Sequence[object], expected: tuple[int, ...]) -> bool:
    if len(sizes) != len(expected):
        return False
    pairs = zip(sizes, expected, strict=True)
    # type, not isinstance: true is not a size
    return all(type(size) is int and (size > 0 and limit in (size, -1)) for size, limit in pairs)
