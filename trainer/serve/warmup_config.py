"""Settings of warm-up: `model_warmup` of config.pbtxt.

Source: Triton, model_config.proto, ModelWarmup. Files of data are in the model's folder `warmup`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trainer.serve import datatypes
from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.tensor_spec import TensorSpec

_Message = Any


@dataclass(frozen=True, kw_only=True)
class WarmupInput:
    """The values of one input of a batch."""

    shape: tuple[int, ...]
    """Shape of one row."""
    source: Literal["zero", "random", "file"]
    file: str = ""
    """Its name in the folder `warmup`: little-endian values of one row."""


@dataclass(frozen=True, kw_only=True)
class WarmupSample:
    """A batch, and how often it is run."""

    name: str
    rows: int
    runs: int
    inputs: tuple[WarmupInput, ...] = field(default=())
    """In the model's order."""


def parse(config: _Message, inputs: Sequence[TensorSpec]) -> tuple[WarmupSample, ...]:
    """Read the samples of a ModelConfig.

    Raises:
        ModelLoadError: one that does not fit the model.
    """
    return tuple(_sample(given, config.max_batch_size, inputs) for given in config.model_warmup)


def _sample(given: _Message, max_batch_size: int, inputs: Sequence[TensorSpec]) -> WarmupSample:
    where = f"config.pbtxt: model_warmup {given.name!r}"
    largest = max(1, max_batch_size)
    rows: int = given.batch_size or (0 if max_batch_size else 1)
    if not 1 <= rows <= largest:
        raise ModelLoadError(f"{where}: batch_size={given.batch_size}: must be 1 to {largest}")
    names = [tensor.name for tensor in inputs]
    if set(given.inputs) != set(names):
        raise ModelLoadError(f"{where}: inputs {sorted(given.inputs)}: must be those of the model, {names}")
    # As clients see it, the shape of a model with batches begins with the batch.
    batch_dimensions = 1 if max_batch_size else 0
    return WarmupSample(
        name=given.name,
        rows=rows,
        runs=given.count or 1,
        inputs=tuple(
            _input(f"{where}: {spec.name!r}", given.inputs[spec.name], spec, spec.shape[batch_dimensions:])
            for spec in inputs
        ),
    )


def _input(where: str, given: _Message, spec: TensorSpec, row_shape: tuple[int, ...]) -> WarmupInput:
    datatype = datatypes.from_triton(datatypes.triton_name(given.data_type))
    if datatype != spec.datatype:
        name = datatypes.triton_name(given.data_type)
        raise ModelLoadError(f"{where}: data_type {name}: must be {spec.datatype.triton_name}")
    shape = tuple(given.dims)
    fits = len(shape) == len(row_shape) and all(
        size > 0 and promised in (size, -1) for size, promised in zip(shape, row_shape, strict=True)
    )
    if not fits:
        raise ModelLoadError(f"{where}: dims {list(shape)}: must be {list(row_shape)} (-1: any size from 1)")
    match given.WhichOneof("input_data_type"):
        case "zero_data":
            return WarmupInput(shape=shape, source="zero")
        case "random_data":
            return WarmupInput(shape=shape, source="random")
        case "input_data_file":
            return WarmupInput(shape=shape, source="file", file=_file_name(where, given.input_data_file))
        case _:
            raise ModelLoadError(f"{where}: has no data. Fix: zero_data, random_data or input_data_file")


def _file_name(where: str, name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ModelLoadError(f"{where}: input_data_file {name!r}: must be the name of a file in the folder warmup")
    return name


def files(samples: Sequence[WarmupSample]) -> Sequence[str]:
    """Return the names of all files that samples read."""
    return sorted({each.file for sample in samples for each in sample.inputs if each.file})
