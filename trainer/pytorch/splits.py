"""A data set for publishing: batch by batch, or whole, on the CPU, as compression does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.trained_model import Splits
from trainer.training.digits import refuse_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainer.pytorch.data.dataset import DataConfig, Dataset


class ReadSamples:
    """A split whose samples are read when they are needed: it may be larger than memory."""

    def __init__(self, dataset: Dataset, *, most: int | None = None) -> None:
        """Take the samples of a data set, or at most so many of them, evenly spread."""
        self._dataset = dataset
        self._indices = torch.arange(len(dataset))
        if most is not None and most < len(dataset):
            self._indices = self._indices[torch.arange(most) * len(dataset) // most]
        self.class_names = dataset.class_names

    def __len__(self) -> int:
        return len(self._indices)

    def batches(self, size: int) -> Iterator[Samples]:
        """Return consecutive parts; the last one may be smaller.

        Raises:
            DataError: a file is damaged, or a label is not a class.
        """
        for begin in range(0, len(self), size):
            batch = self._dataset.batch(self._indices[begin : begin + size]).to(torch.device("cpu"))
            refuse_labels(batch.targets, self._dataset.classes, first=None)
            yield Samples(inputs=batch.inputs, labels=batch.targets)


def load_splits(data: DataConfig, input_shape: Sequence[int]) -> Splits:
    """Return both splits of a data set of images, as a model of `input_shape` reads them.

    Raises:
        DataError: they are missing or damaged.
    """
    training, held_out = data.open("train", input_shape), data.open("held_out", input_shape)
    return Splits(training=_samples(training), held_out=_samples(held_out), class_names=held_out.class_names)


def _samples(dataset: Dataset) -> Samples:
    [samples] = ReadSamples(dataset).batches(len(dataset))
    return samples
