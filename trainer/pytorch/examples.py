"""Example inputs of a network, with names, types and sizes of inputs and outputs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from trainer.common.validation import SettingsError
from trainer.model_repository.model_file import TORCH_TYPES
from trainer.model_repository.results import full_name, leaves
from trainer.pytorch.source_error import SourceError, reason
from trainer.pytorch.trained_model import TensorSpec
from trainer.pytorch.user_code import from_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn

_DATATYPES = {dtype: name for name, dtype in TORCH_TYPES.items()}
_FORM = "a dict of tensors by the names of forward's arguments, or a list of such dicts"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """The inputs and outputs of a network, in the order of its arguments and results."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    samples: list[list[Tensor]]
    """The examples: calls with a tensor per input."""


def interface(examples: str, module: nn.Module, output_name: str, *, is_batched: bool = True) -> Interface:
    """Return how a network is called, by examples.

    Args:
        examples: FILE.py:NAME of a dict of tensors [rows, …] by the names of forward's arguments, with two rows or
            more; or of a list of them, where dimensions in which they differ take any size; or of a function that
            returns either.
        module: In evaluation mode.
        output_name: Of a result that is one tensor. Others have the names of their keys or fields, numbers
            (`OUTPUT__0`) in a tuple or list, or paths.
        is_batched: Whether the first dimension of all tensors is the rows; else it is one as any.

    Raises:
        SourceError: there is no such file or name, its code or the network fails, or what it takes or returns cannot be
            served.
    """
    calls = _read(examples)
    if is_batched:
        _check_rows(examples, calls)
    names, samples = _in_order(examples, calls, module)
    results = [_outputs(examples, module, tensors, is_batched=is_batched) for tensors in samples]
    places = list(results[0])
    if any(list(each) != places for each in results):
        raise SourceError(
            f"examples={examples!r}: the network returns other values for other sizes. Fix: the same ones"
        )
    columns = list(zip(*samples, strict=True))
    return Interface(
        inputs=tuple(_spec(name, column, is_batched=is_batched) for name, column in zip(names, columns, strict=True)),
        outputs=tuple(
            _spec(name, [each[place] for each in results], is_batched=is_batched)
            for name, place in zip(_output_names(places, output_name), places, strict=True)
        ),
        samples=samples,
    )


def _read(examples: str) -> list[dict[str, Tensor]]:
    try:
        given = from_file("examples", examples)
    except SettingsError as error:
        raise SourceError(str(error)) from error
    if callable(given):
        try:
            given = given()
        except (Exception, SystemExit) as error:
            why = reason(error, examples.rpartition(":")[0])
            raise SourceError(f"examples={examples!r}: fails: {why}. Fix: a function without arguments") from error
    several = cast("Sequence[object]", given) if isinstance(given, (list, tuple)) else [given]
    if not several:
        raise SourceError(f"examples={examples!r}: has none; must be {_FORM}")
    return [_checked(examples, each) for each in several]


def _checked(examples: str, given: object) -> dict[str, Tensor]:
    if not isinstance(given, dict) or not given:
        kind = type(cast("object", given)).__name__
        raise SourceError(f"examples={examples!r}: is {kind}; must be {_FORM}")
    items = cast("Mapping[object, object]", given).items()
    call = {str(name): _tensor(f"examples={examples!r}: {name!r}", value) for name, value in items}
    if numbers := [name for name, tensor in call.items() if not tensor.ndim]:
        raise SourceError(f"examples={examples!r}: {numbers[0]} has no dimension; must have one or more. Fix: [1]")
    return call


def _check_rows(examples: str, calls: list[dict[str, Tensor]]) -> None:
    for call in calls:
        rows = {len(tensor) for tensor in call.values()}
        if len(rows) > 1 or min(rows) < 2:
            given_rows = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in call.items())
            fix = "Fix: the same number of rows, 2 or more, in the first dimension of each"
            fix += "; or --unbatched"
            raise SourceError(f"examples={examples!r}: {given_rows}: are not a batch. {fix}")


def _tensor(what: str, value: object) -> Tensor:
    tensor: object = torch.as_tensor(cast("object", value)) if isinstance(value, np.ndarray) else value
    if not isinstance(tensor, torch.Tensor):
        raise SourceError(f"{what} is {type(cast('object', value)).__name__}; must be {_FORM}")
    if tensor.dtype not in _DATATYPES:
        raise SourceError(f"{what} is {tensor.dtype}; must be one of {', '.join(TORCH_TYPES)}")
    return tensor.detach().cpu()


def _in_order(examples: str, calls: list[dict[str, Tensor]], module: nn.Module) -> tuple[list[str], list[list[Tensor]]]:
    """Return the names of the arguments in their order, and the tensors of each call in it."""
    signature = inspect.signature(module.forward)
    first = calls[0]
    for each in calls[1:]:
        forms = [{name: (tensor.dtype, tensor.ndim) for name, tensor in call.items()} for call in (first, each)]
        if forms[0] != forms[1]:
            raise SourceError(
                f"examples={examples!r}: differ in names, types or dimensions; must differ in sizes alone"
            )
    try:
        bound = signature.bind(**first)
    except TypeError as error:
        takes = f"forward takes {signature}"
        raise SourceError(f"examples={examples!r}: {error}; {takes}. Fix: a tensor for each argument's name") from error
    if bound.kwargs:
        fix = "Fix: the arguments before it, too, or a module around the network whose forward takes these alone"
        raise SourceError(f"examples={examples!r}: {next(iter(bound.kwargs))} is given by name alone. {fix}")
    names = list(bound.arguments)
    return names, [[call[name] for name in names] for call in calls]


def _outputs(
    examples: str, module: nn.Module, tensors: list[Tensor], *, is_batched: bool
) -> dict[tuple[str | int, ...], Tensor]:
    shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors)
    try:
        with torch.inference_mode():
            result: object = module(*(tensor.clone() for tensor in tensors))
    except Exception as error:  # whatever a user's network raises
        raise SourceError(f"examples={examples!r}: the network fails on {shapes}: {reason(error, None)}") from error
    outputs: dict[tuple[str | int, ...], Tensor] = {}
    for path, value in leaves(result):
        place = full_name(path) if path else "a result"
        if not isinstance(value, torch.Tensor) or value.dtype not in _DATATYPES:
            what = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
            raise SourceError(f"the network returns {what} as {place}; must be tensors of {', '.join(TORCH_TYPES)}")
        if not value.ndim and not is_batched:
            fix = "Fix: value.reshape(1)"
            raise SourceError(f"the network returns {place} without a dimension; must have one or more. {fix}")
        if is_batched and (not value.ndim or len(value) != len(tensors[0])):
            limit = f"must have a row for each of the {len(tensors[0])} rows of the inputs"
            raise SourceError(
                f"the network returns {list(value.shape)} as {place}; {limit}. Fix: batches first, or --unbatched"
            )
        outputs[path] = value
    if not outputs:
        raise SourceError(f"the network returns {type(result).__name__} without a tensor; must return one or more")
    return outputs


def _output_names(places: list[tuple[str | int, ...]], output_name: str) -> list[str]:
    if places == [()]:
        return [output_name]
    if all(len(path) == 1 and isinstance(path[0], str) for path in places):
        return [str(path[0]) for path in places]
    if all(isinstance(step, int) for path in places for step in path):
        return [f"OUTPUT__{number}" for number in range(len(places))]
    return [full_name(path) for path in places]


def _spec(name: str, tensors: Sequence[Tensor], *, is_batched: bool) -> TensorSpec:
    first = 1 if is_batched else 0
    sizes = zip(*(tensor.shape[first:] for tensor in tensors), strict=True)
    shape = tuple(each[0] if len(set(each)) == 1 else -1 for each in sizes)
    return TensorSpec(name=name, shape=shape, datatype=_DATATYPES[tensors[0].dtype])
