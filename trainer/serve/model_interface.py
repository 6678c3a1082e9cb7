"""Mapping between a program's arguments and outputs and the tensors of config.pbtxt; arrays to torch, and back.

Source: Triton's PyTorch backend, its README: names of arguments or `NAME__0`, one argument `Dict[str, Tensor]`,
`RESULT[0][key]` for what is nested, and `List[str]` for text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from trainer.model_repository.model_file import TORCH_TYPES
from trainer.model_repository.results import full_name, is_text, leaves
from trainer.serve.datatypes import BF16, BYTES
from trainer.serve.errors import ModelLoadError
from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainer.model_repository.model_file import Program
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec


class Arguments:
    """The arguments of a program."""

    def __init__(self, program: Program, spec: ModelSpec) -> None:
        """Find the input of each argument.

        Raises:
            ModelLoadError: an argument without a default value has no input, or an input no argument.
        """
        names = [tensor.name for tensor in spec.inputs]
        # a dict has the names of the inputs for its keys
        self._places = (
            {name: place for place, name in enumerate(names)}
            if program.takes_dict
            else _inputs_of_arguments(program, names)
        )
        self._specs = spec.inputs
        self._takes_dict = program.takes_dict
        first = list(program.arguments[: len(self._places)])
        self._are_first = list(self._places) == first and not program.keywords.intersection(first)

    def call(self, program: Callable[..., object], inputs: Sequence[Array]) -> object:
        """Call the program on arrays in the order of the configuration, which must be writable and aligned."""
        if self._are_first:
            return program(*(_value(inputs[place], self._specs[place]) for place in self._places.values()))
        values = {name: _value(inputs[place], self._specs[place]) for name, place in self._places.items()}
        return program(values) if self._takes_dict else program(**values)


class Outputs:
    """The results of a program, as arrays."""

    def __init__(self, spec: ModelSpec) -> None:
        """Find the place of each output.

        Raises:
            ModelLoadError: the numbers of the names are not places.
        """
        self._specs = spec.outputs
        self._names = [tensor.name for tensor in spec.outputs]
        self._places = _places("outputs", self._names) or list(range(len(self._names)))

    def arrays(self, result: object) -> list[Array]:
        """Return the outputs in the order of the configuration.

        Raises:
            ModelLoadError: they are not what the configuration promises.
        """
        values = [result] if isinstance(result, torch.Tensor) else self._values(result)
        if len(values) != len(self._names):
            types = _types(result)
            raise ModelLoadError(f"the model returns {types}; config.pbtxt promises a tensor for each of {self._names}")
        return [_array(value, spec) for value, spec in zip(values, self._specs, strict=True)]

    def _values(self, result: object) -> list[object]:
        """Return the values of the names; missing and repeated ones change their number.

        By name, where the configuration names values so: a key or field, or `RESULT[0][key]` with the path of a value.
        Else by number or order, but not of dicts, whose order nobody sees in their code.
        """
        given = list(leaves(result))
        named = {full_name(path): value for path, value in given}
        named |= {path[0]: value for path, value in given if len(path) == 1 and isinstance(path[0], str)}
        if named.keys() >= set(self._names):
            return [named[name] for name in self._names]
        if _has_dict(result) or len(given) != len(self._names):
            return []
        return [given[place][1] for place in self._places]


def _inputs_of_arguments(program: Program, names: list[str]) -> dict[str, int]:
    """Return the place of each argument's input: by name, by the number of `NAME__0`, else by order."""
    arguments = list(program.arguments)
    if {name for name in arguments if name not in program.defaults} <= set(names) <= set(arguments):
        return {argument: names.index(argument) for argument in arguments if argument in names}
    if len(names) > len(arguments) or not program.defaults.issuperset(arguments[len(names) :]):
        raise ModelLoadError(f"the model takes {arguments}; config.pbtxt has the inputs {names}")
    places = _places("inputs", names) or list(range(len(names)))
    for name, place in zip(names, places, strict=True):
        if name in arguments and arguments[place] != name:
            # some other name is not an argument's, perhaps by a slip, and by order this one would be given to another
            raise ModelLoadError(
                f"config.pbtxt: by order, input {name!r} would be the model's {arguments[place]!r}, though it takes "
                f"{arguments}. Fix: their names for all inputs {names}, or names of which none is an argument's"
            )
    return {argument: places.index(place) for place, argument in enumerate(arguments[: len(names)])}


def _places(kind: str, names: list[str]) -> list[int]:
    """Return the numbers of names that all end in one, as `NAME__0`; none where a name has no number."""
    numbers = [number if separator else "" for _, separator, number in (name.rpartition("__") for name in names)]
    if not all(number.isdecimal() for number in numbers):
        return []
    if sorted(numbers) != sorted(str(place) for place in range(len(names))):
        allowed = f"must be each of {list(range(len(names)))} once"
        raise ModelLoadError(f"config.pbtxt: {kind} {names}: the numbers after __ are indices: {allowed}")
    return [int(number) for number in numbers]


def _value(array: Array, spec: TensorSpec) -> torch.Tensor | list[bytes]:
    if spec.is_squeezed:
        array = array[..., 0]
    if spec.datatype.name == BYTES:
        return array.tolist()
    tensor = torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]
    return tensor.view(torch.bfloat16) if spec.datatype.name == BF16 else tensor


def _array(value: object, spec: TensorSpec) -> Array:
    if spec.datatype.name == BYTES and is_text(value):
        texts = cast("list[str]", value)
        array = tensors.array_of([text.encode() for text in texts], (len(texts),))
    elif isinstance(value, torch.Tensor) and value.dtype == TORCH_TYPES.get(spec.datatype.name):
        tensor = value.contiguous()
        array = (tensor.view(torch.uint16) if spec.datatype.name == BF16 else tensor).numpy()
    else:
        given = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise ModelLoadError(f"output {spec.name!r} is {given}; config.pbtxt says {spec.datatype.name}")
    return array[..., None] if spec.is_squeezed else array


def _has_dict(result: object) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_has_dict, cast("Sequence[object]", result)))
    return isinstance(result, dict)


def _types(result: object) -> dict[str, str] | list[str]:
    if isinstance(result, dict):
        return {name: type(item).__name__ for name, item in cast("Mapping[str, object]", result).items()}
    items = cast("Sequence[object]", result) if isinstance(result, (tuple, list)) else [result]
    return [type(item).__name__ for item in items]
