"""The order of samples: those of each step and rank, and the continuation after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainer.common.validation import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def check_batch(batch_size: int, *, ranks: int, microbatches: int = 1, samples: int | None = None) -> None:
    """Refuse a batch that data-parallel ranks and their microbatches cannot share evenly, or an epoch does not fill.

    Args:
        batch_size: Of all ranks.
        ranks: That see different samples.
        microbatches: Of each rank.
        samples: Of an epoch; None where they are not known.

    Raises:
        SettingsError: naming the batch size and one that fits.
    """
    parts = ranks * microbatches
    shared = f"{ranks} data-parallel ranks" + (f" x {microbatches} microbatches" if microbatches > 1 else "")
    if samples is not None and samples < parts:
        limit = f"an epoch of {samples} samples has none for each part of {shared}"
        raise SettingsError(f"batch_size={batch_size}: {limit}. Fix: fewer of them, or more samples")
    largest = batch_size + parts if samples is None else samples // parts * parts
    if samples is not None and batch_size > samples:
        fix = f"--batch_size {largest}, or less in steps of {parts}, or more samples"
        raise SettingsError(f"batch_size={batch_size}: must be at most {samples}, the samples of one epoch. Fix: {fix}")
    if batch_size % parts:
        multiple = min(-(-batch_size // parts) * parts, largest)
        elastic = "in an elastic job a multiple of every number of ranks from its least to its most"
        fix = f"Fix: a multiple of {parts}, for example {multiple}; {elastic}"
        raise SettingsError(f"batch_size={batch_size}: {shared} cannot share it evenly. {fix}")


class GivenBatches:
    """Batches of sample indices in the order in which they are given, again and again: those of an evaluation."""

    def __init__(self, batches: Sequence[Tensor]) -> None:
        self.batch_size_per_rank = max(map(len, batches), default=1)
        self._batches = batches
        self._taken = 0

    def __next__(self) -> Tensor:
        """Return the indices of the next batch, int64 [N]."""
        self._taken += 1
        return self._batches[(self._taken - 1) % len(self._batches)]


class IndexSampler:
    """Endless batches of sample indices: a new order each epoch, one slice per rank, a state of three numbers.

    The order depends on (seed, epoch) and the position is counted over all ranks, so every number of ranks walks
    through the same global batches. Samples that do not fill a last batch are left out of that epoch.
    """

    def __init__(  # noqa: PLR0913  all by name
        self, *, num_samples: int, batch_size: int, rank: int, world_size: int, seed: int, microbatches: int = 1
    ) -> None:
        check_batch(batch_size, ranks=world_size, microbatches=microbatches, samples=num_samples)
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
