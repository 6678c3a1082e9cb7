"""Warm-up of a version before it answers requests: runs compilation and checks the outputs."""

from __future__ import annotations

import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from trainer.common.files import is_inside
from trainer.model_repository import torch_error
from trainer.model_repository.layout import WARMUP_FOLDER
from trainer.serve.datatypes import BF16, BYTES
from trainer.serve.errors import ModelLoadError
from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trainer.serve.datatypes import Datatype
    from trainer.serve.model import LoadedModel
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec
    from trainer.serve.warmup_config import WarmupInput, WarmupSample

logger = logging.getLogger(__name__)

_RUNS_PER_SIZE = 2
"""TorchScript's executor profiles the first call of a shape and compiles in the second."""
_LARGEST_BYTES = 256 << 20
"""Largest size of a batch of zeros, as all requests together hold by default: a max_batch_size far beyond what anybody
sends must not take the memory of the machine."""


def warm_up(model: LoadedModel, model_folder: Path, budget_seconds: float) -> None:
    """Run the samples of model_warmup, each on as many threads as the model has instances.

    Without samples, run zeros in batches of every size, as many sizes as `budget_seconds` has time for.

    Raises:
        ModelLoadError: the model fails, or its outputs are not what the configuration promises.
        OSError: a file of a sample cannot be read.
    """
    if not model.spec.warmup:
        _run_zeros(model, budget_seconds)
        return
    for sample in model.spec.warmup:
        arrays = _arrays(sample, model.spec, model_folder / WARMUP_FOLDER)
        with ThreadPoolExecutor(model.spec.instances, "warm-up") as instances:
            runs = [
                instances.submit(_run, model, arrays, sample.rows, sample.runs, f"the warm-up {sample.name!r}")
                for _ in range(model.spec.instances)
            ]
        for run in runs:
            run.result()


def _run_zeros(model: LoadedModel, budget_seconds: float) -> None:
    spec = model.spec
    if any(-1 in tensor.shape[1 if spec.max_batch_size else 0 :] for tensor in spec.inputs):
        logger.info(
            "%s version %d: inputs of any size: not warmed up. Fix: model_warmup in config.pbtxt",
            *(spec.name, model.version),
        )
        return
    deadline = time.monotonic() + budget_seconds
    for done, rows in enumerate(_sizes(spec), start=1):
        what = f"zeros in a batch of {rows}"
        _run(model, _zeros(spec, rows, what), rows, _RUNS_PER_SIZE, what)
        if time.monotonic() > deadline:
            total = max(1, spec.max_batch_size)
            logger.warning("%s version %d: only %d of %d batch sizes warmed up", spec.name, model.version, done, total)
            return


def _zeros(spec: ModelSpec, rows: int, what: str) -> list[Array]:
    try:
        return [
            tensor.datatype.zeros(tuple(rows if size == -1 else size for size in tensor.shape))
            for tensor in spec.inputs
        ]
    except (MemoryError, ValueError) as error:  # NumPy has a ValueError for what no machine could hold
        raise ModelLoadError(f"{what}: {error}. Fix: dims in config.pbtxt") from error


def _sizes(spec: ModelSpec) -> Iterator[int]:
    """Yield 1..max, those first without which a budget that runs out would hurt most.

    The largest that fits into `_LARGEST_BYTES`, preferred ones, then doublings.
    """
    row_bytes = sum(math.prod(tensor.shape[1:]) * tensor.datatype.numpy.itemsize for tensor in spec.inputs)
    limit = max(1, min(spec.max_batch_size, _LARGEST_BYTES // row_bytes))
    preferred = sorted((size for size in spec.batching.preferred_sizes if size <= limit), reverse=True)
    doublings = [1 << power for power in range(limit.bit_length()) if 1 << power < limit]
    first = dict.fromkeys([limit, *preferred, *doublings])
    yield from first
    yield from (size for size in range(1, limit) if size not in first)


def _run(model: LoadedModel, inputs: list[Array], rows: int, runs: int, what: str) -> None:
    for _ in range(runs):
        try:
            outputs = model.infer(inputs)
        except ModelLoadError:
            raise
        except Exception as error:  # a model may raise anything; TorchScript's own is not even a RuntimeError
            raise ModelLoadError(f"the model fails on {what}: {torch_error.reason(error)}") from error
        for array, spec in zip(outputs, model.spec.outputs, strict=True):
            _check_shape(array, spec, (rows, *spec.shape[1:]) if model.spec.max_batch_size else spec.shape)


def _check_shape(array: Array, spec: TensorSpec, expected: tuple[int, ...]) -> None:
    fits = array.ndim == len(expected) and all(
        promised in (size, -1) for size, promised in zip(array.shape, expected, strict=True)
    )
    if not fits:
        raise ModelLoadError(f"output {spec.name!r} has shape {list(array.shape)}; config.pbtxt says {list(expected)}")


def _arrays(sample: WarmupSample, spec: ModelSpec, folder: Path) -> list[Array]:
    """Return the inputs of a sample; each row of a batch has the same values, as in Triton."""
    rows = [_row(given, tensor, folder) for given, tensor in zip(sample.inputs, spec.inputs, strict=True)]
    return [np.stack([row] * sample.rows) for row in rows] if spec.max_batch_size else rows


def _row(given: WarmupInput, tensor: TensorSpec, folder: Path) -> Array:
    dtype = tensor.datatype.numpy
    if given.source == "zero":
        return tensor.datatype.zeros(given.shape)
    if given.source == "random":
        return _random(given.shape, tensor.datatype)
    path = folder / given.file
    if not is_inside(path, folder.parent):
        raise ModelLoadError(f"{WARMUP_FOLDER}/{given.file}: leads out of the model's folder. Fix: copy the file there")
    if tensor.datatype.name == BYTES:
        try:
            return tensors.texts(memoryview(path.read_bytes()), given.shape)
        except ValueError as error:
            raise ModelLoadError(f"{WARMUP_FOLDER}/{given.file}: {error}") from error
    expected, size = math.prod(given.shape) * dtype.itemsize, path.stat().st_size
    if size != expected:
        raise ModelLoadError(f"{WARMUP_FOLDER}/{given.file}: {size} bytes; one row of {tensor.name!r} has {expected}")
    return np.frombuffer(path.read_bytes(), dtype).reshape(given.shape).copy()


def _random(shape: tuple[int, ...], datatype: Datatype) -> Array:
    """Return fractions from 0 to 1, any whole numbers, or eight letters; always the same ones."""
    generator = np.random.default_rng(0)
    dtype = datatype.numpy
    if datatype.name == BF16:
        return (generator.random(shape).astype(np.float32).view(np.uint32) >> 16).astype(dtype)
    match datatype.kind:
        case "f":
            return generator.random(shape).astype(dtype)
        case "O":
            letters = generator.integers(ord("a"), ord("z"), (math.prod(shape), 8), np.uint8, endpoint=True)
            return tensors.array_of([row.tobytes() for row in letters], shape)
        case "b":
            return generator.integers(0, 2, shape).astype(dtype)
        case _:
            limits = np.iinfo(dtype.type)
            return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
