"""Comparison of the answers of two programs, which decides which files are published and which program serves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trainer.model_repository.results import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

BATCH_SIZES = (1, 2, 3, 7)
"""Samples in a batch: kernels and shapes of one, of even and of odd numbers differ."""
RELATIVE_TOLERANCE = 1e-4
"""Share of the largest output of the sample: what is rounded in it is proportional to its terms, which may cancel
out."""
ABSOLUTE_TOLERANCE = 1e-5
_RUNS = 2
"""Runs of each batch: TorchScript's executor profiles the first call of a shape, and answers later ones by other
code."""
_LARGEST_BYTES = 64 << 20


def random_batches(shapes: Sequence[Sequence[int]], sizes: Iterable[int] = BATCH_SIZES) -> Iterator[list[Tensor]]:
    """Yield batches of normally distributed float32, the same ones on every call.

    Args:
        shapes: Of one sample of each input.
        sizes: Samples of each batch. Those of more than 64 MiB are left out, except for the first one.
    """
    sample_bytes = 4 * sum(math.prod(shape) for shape in shapes)
    for place, size in enumerate(sizes):
        if place and size * sample_bytes > _LARGEST_BYTES:
            return
        generator = torch.Generator().manual_seed(size)
        yield [torch.randn(size, *shape, generator=generator) for shape in shapes]


def random_calls(shapes: Sequence[Sequence[int]]) -> Iterator[list[Tensor]]:
    """Yield the inputs of a few calls of a model that takes no batches, the same ones each time; `shapes` are whole."""
    for batch in random_batches(shapes):
        yield [tensor[0] for tensor in batch]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Inputs and the right answer to them."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


def case(program: Callable[..., object], inputs: Sequence[Tensor]) -> Case:
    """Return the case in which a program is right; raises what it raises.

    Call it, and `difference`, in `torch.inference_mode`.

    Args:
        program: Takes a tensor per input. Returns a tensor or an array, or dicts, lists and tuples of them.
        inputs: Of one call.
    """
    return Case(inputs=inputs, outputs=_outputs(program, inputs))


def difference(program: Callable[..., object], cases: Iterable[Case]) -> str:
    """Return how a program's answers differ from the right ones, or nothing where all are equal; see `case`."""
    for each in cases:
        for _ in range(_RUNS):
            outputs = _outputs(program, each.inputs)
            if len(outputs) != len(each.outputs):
                return f"returns {len(outputs)} outputs instead of {len(each.outputs)}"
            whys = (_difference(right, given) for right, given in zip(each.outputs, outputs, strict=True))
            if why := next(filter(None, whys), ""):
                return f"{why}, on inputs of {' and '.join(str(list(tensor.shape)) for tensor in each.inputs)}"
    return ""


def dependence_of_rows(program: Callable[..., object], inputs: Sequence[Tensor]) -> str:
    """Return how the answers to the rows of a batch differ from those to each row alone, or nothing if they are equal.

    Args:
        program: As for `case`; its outputs have a row for each of the inputs'.
        inputs: Of one call, with at least two rows.
    """
    together = _outputs(program, inputs)
    alone = [_outputs(program, [tensor[place : place + 1] for tensor in inputs]) for place in range(len(inputs[0]))]
    whys = (_difference(torch.cat(parts), whole) for whole, *parts in zip(together, *alone, strict=True))
    return next(filter(None, whys), "")


def _outputs(program: Callable[..., object], inputs: Sequence[Tensor]) -> list[Tensor]:
    # copies: a program may write to its inputs, and return them
    result = program(*(tensor.clone() for tensor in inputs))
    return [torch.as_tensor(output) for _, output in leaves(result)]


def _difference(expected: Tensor, answer: Tensor) -> str:
    if (answer.shape, answer.dtype) != (expected.shape, expected.dtype):
        forms = [f"{output.dtype} {list(output.shape)}" for output in (answer, expected)]
        return f"returns {forms[0]} instead of {forms[1]}"
    right, given = expected.double(), answer.double()
    distance = (given - right).abs()
    alike = (given == right) | (given.isnan() & right.isnan())
    if expected.is_floating_point():
        alike |= distance <= ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * _largest_of_samples(right)
    if alike.all():
        return ""
    worst = distance[~alike].max().item()
    return (
        f"differs by {worst:g}; allowed: {ABSOLUTE_TOLERANCE:g} + {RELATIVE_TOLERANCE:g} of a sample's largest output"
    )


def _largest_of_samples(values: Tensor) -> Tensor:
    """Return the largest finite absolute value of each sample, in a shape that broadcasts to the values'."""
    magnitudes = values.abs().nan_to_num(posinf=0.0)
    if values.ndim < 2 or not values.numel():
        return magnitudes
    return magnitudes.amax(dim=tuple(range(1, values.ndim)), keepdim=True)
