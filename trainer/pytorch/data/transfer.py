"""Transfer of a batch from a reader process to its rank: small ones through the pipe, large ones in shared memory.

torch sends every tensor as a file of shared memory, whose descriptor the rank fetches over a socket of its own, with
keys that both sides check: half a millisecond of CPU for each on either side. Below a few hundred kilobytes copying the
values through the pipe twice costs less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trainer.pytorch.data.dataset import Batch
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trainer.pytorch.data.dataset import DamagedSampleError, Dataset

PIPE_BYTES = 256 * 1024
"""Largest batch that goes through the pipe. At 800 kB both ways cost the same (docs/benchmarks.md)."""
_MOST_BATCHES = 4
"""Most batches of a message: the first step waits until all of them are read."""
_BYTES_OF_VALUE = 8
"""At most: tokens and targets are int64."""


@dataclass(frozen=True, kw_only=True)
class PipedBatch:
    """A batch as arrays, which pickle as their values."""

    inputs: NDArray[np.generic]
    targets: NDArray[np.generic]
    damaged: tuple[DamagedSampleError, ...]

    def unpacked(self) -> Batch:
        """Return the batch; it shares the arrays' memory."""
        return Batch(
            inputs=torch.from_numpy(self.inputs),  # pyright: ignore[reportUnknownMemberType]
            targets=torch.from_numpy(self.targets),  # pyright: ignore[reportUnknownMemberType]
            damaged=self.damaged,
        )


Message = list[Batch | PipedBatch] | DataError
"""A message of a reader: batches, or the error that it met in their place."""


def batches_of_message(dataset: Dataset, batch_size: int) -> int:
    """Return how many batches a reader sends at once: small ones share what a message costs both sides."""
    batch_bytes = _BYTES_OF_VALUE * batch_size * (math.prod(dataset.sample_shape) + 1)
    return max(1, min(_MOST_BATCHES, PIPE_BYTES // batch_bytes))


def packed(batches: Sequence[Batch]) -> Message:
    """Return the message that a reader sends for batches on the CPU."""
    return [_packed(batch) for batch in batches]


def unpacked(message: Message) -> list[Batch]:
    """Return the batches of a message that a rank received.

    Raises:
        DataError: what the reader met.
    """
    if isinstance(message, DataError):
        raise message
    return [each.unpacked() if isinstance(each, PipedBatch) else each for each in message]


def _packed(batch: Batch) -> Batch | PipedBatch:
    if batch.inputs.nbytes + batch.targets.nbytes > PIPE_BYTES:
        return batch
    return PipedBatch(inputs=batch.inputs.numpy(), targets=batch.targets.numpy(), damaged=batch.damaged)
