"""How a batch travels from a process that reads to its rank: small ones through the pipe, large ones in shared memory.

torch sends every tensor as a file of shared memory, whose descriptor the rank fetches over a socket of its own, with
keys that both sides check: half a millisecond of CPU for each on either side. Below a few hundred kilobytes copying the
values through the pipe twice costs less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trainer.pytorch.data.dataset import Batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIPE_BYTES = 256 * 1024
"""Largest batch that goes through the pipe. At 800 kB both ways cost the same (docs/benchmarks.md)."""


@dataclass(frozen=True, kw_only=True)
class PipedBatch:
    """A batch as arrays, which pickle as their values."""

    inputs: NDArray[np.generic]
    targets: NDArray[np.generic]

    def unpacked(self) -> Batch:
        """Return the batch; it shares the arrays' memory."""
        return Batch(
            inputs=torch.from_numpy(self.inputs),  # pyright: ignore[reportUnknownMemberType]
            targets=torch.from_numpy(self.targets),  # pyright: ignore[reportUnknownMemberType]
        )

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory; torch's loader calls this."""
        return self.unpacked().pin_memory()


def packed(batch: Batch) -> Batch | PipedBatch:
    """Return what a reader sends for a batch on the CPU."""
    if batch.inputs.nbytes + batch.targets.nbytes > PIPE_BYTES:
        return batch
    return PipedBatch(inputs=batch.inputs.numpy(), targets=batch.targets.numpy())


def unpacked(received: Batch | PipedBatch) -> Batch:
    """Return the batch that a rank received."""
    return received.unpacked() if isinstance(received, PipedBatch) else received
