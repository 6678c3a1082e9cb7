"""Which samples a step uses, in which order, on which rank, and how to continue after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainer.common.validation import SettingsError

if TYPE_CHECKING:
    from torch import Tensor


class IndexSampler:
    """Endless batches of sample indices: a new order each epoch, one slice per rank, a state of three numbers.

    The order depends on (seed, epoch) and the position is counted over all ranks, so every number of ranks walks
    through the same global batches. Samples that do not fill a last batch are left out of that epoch.
    """

    def __init__(self, *, num_samples: int, batch_size: int, rank: int, world_size: int, seed: int) -> None:
        if batch_size % world_size:
            multiple = -(-batch_size // world_size) * world_size
            elastic = "in an elastic job a multiple of every number of ranks from its least to its most"
            fix = f"Fix: a multiple of {world_size}, for example {multiple}; {elastic}"
            raise SettingsError(f"batch_size={batch_size}: {world_size} ranks cannot share it evenly. {fix}")
        if batch_size > num_samples:
            largest = num_samples // world_size * world_size
            fix = (
                f"Fix: --batch_size {largest} or less" if largest else f"Fix: at most {num_samples} data-parallel ranks"
            )
            limit = f"must be at most {num_samples}, the samples of one epoch"
            raise SettingsError(f"batch_size={batch_size}: {limit}. {fix}, or more samples")
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.steps_per_epoch = num_samples // batch_size
        self.batch_size_per_rank = batch_size // world_size
        self._rank = rank
        self._seed = seed
        self.epoch = 0
        self.offset = 0
        self._order = self._order_of(self.epoch)

    def __iter__(self) -> IndexSampler:
        return self

    def __next__(self) -> Tensor:
        """Return this rank's indices of the next batch, int64 [batch_size / ranks]."""
        begin = self.offset + self._rank * self.batch_size_per_rank
        indices = self._order[begin : begin + self.batch_size_per_rank]
        self.offset += self.batch_size
        if self.offset + self.batch_size > self.num_samples:
            self._go_to(epoch=self.epoch + 1, offset=0)
        return indices

    def state_dict(self) -> dict[str, int]:
        """Return the position: the epoch, the samples of it already used by all ranks, and the seed."""
        return {"epoch": self.epoch, "offset": self.offset, "seed": self._seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position that `state_dict` returned.

        Raises:
            SettingsError: it belongs to another seed, so the order would not be the same.
        """
        if state["seed"] != self._seed:
            raise SettingsError(f"seed={self._seed}: the saved position belongs to seed {state['seed']}")
        self._go_to(epoch=int(state["epoch"]), offset=int(state["offset"]))

    def _go_to(self, *, epoch: int, offset: int) -> None:
        if epoch != self.epoch:
            self._order = self._order_of(epoch)
        self.epoch, self.offset = epoch, offset

    def _order_of(self, epoch: int) -> Tensor:
        mixed = int(np.random.SeedSequence((self._seed, epoch)).generate_state(1, np.uint32)[0])
        return torch.randperm(self.num_samples, generator=torch.Generator().manual_seed(mixed))
