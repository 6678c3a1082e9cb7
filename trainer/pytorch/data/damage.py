"""Damaged samples: skipped and reported up to a limit, an error with the fix beyond it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from trainer.common.validation import listed
from trainer.pytorch.data.dataset import Batch, DamagedSampleError, Dataset
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Report = Callable[[DamagedSampleError], None]


def refuse_beyond(most: int, messages: Sequence[str]) -> None:
    """Refuse more damaged samples than `most`.

    Args:
        most: How many may be left out.
        messages: What is wrong with each one so far.

    Raises:
        DataError: naming them.
    """
    count = len(messages)
    if count <= most:
        return
    fix = f"or --skip_damaged {count} to leave out up to {count}"
    if not most:
        raise DataError(f"{messages[0]}, {fix}")
    raise DataError(f"{count} damaged samples, skip_damaged={most}: {listed(messages)}. Fix: replace them, {fix}")


class UndamagedDataset(Dataset):
    """A data set in which the next usable sample takes the place of each damaged one.

    So batches keep their size and all other samples their places, the same on every rank and after every restart.
    """

    def __init__(self, dataset: Dataset, *, most: int, report: Report | None) -> None:
        """Take the samples.

        Args:
            dataset: All of them.
            most: How many may be damaged.
            report: Gets each damaged sample once. Without it, as in another process, its batch has it.
        """
        self.sample_shape, self.classes, self.class_names = dataset.sample_shape, dataset.classes, dataset.class_names
        self.tokens_per_sample, self.notes = dataset.tokens_per_sample, dataset.notes
        self._dataset = dataset
        self._most = most
        self._report = report
        self._met: dict[int, DamagedSampleError] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def unfiltered(self) -> Dataset:
        """The samples with the damaged ones."""
        return self._dataset

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which cannot report."""
        return {**vars(self), "_report": None}

    def batch(self, indices: Tensor) -> Batch:
        """See `Dataset.batch`.

        Raises:
            DataError: more samples are damaged than may be, or a file cannot be read.
        """
        new: list[DamagedSampleError] = []
        while True:
            try:
                batch = self._dataset.batch(self._usable(indices))
            except DamagedSampleError as error:
                self._met[error.number] = error
                most = min(self._most, len(self) - 1)
                refuse_beyond(most, [str(each) for each in self._met.values()])
                new.append(error)
            else:
                break
        if self._report is None:
            return replace(batch, damaged=tuple(new))
        for each in new:
            self._report(each)
        return batch

    def name(self, number: int) -> str:
        """See `Dataset.name`."""
        return self._dataset.name(self._instead_of(number))

    def on(self, device: torch.device) -> UndamagedDataset:
        """See `Dataset.on`."""
        return UndamagedDataset(self._dataset.on(device), most=self._most, report=self._report)

    def _usable(self, indices: Tensor) -> Tensor:
        if not self._met:
            return indices
        return torch.tensor([self._instead_of(int(number)) for number in indices])

    def _instead_of(self, number: int) -> int:
        while number in self._met:
            number = (number + 1) % len(self)
        return number
