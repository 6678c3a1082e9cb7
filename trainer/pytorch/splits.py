"""A data set as compression takes it: whole, on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.trained_model import Splits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.pytorch.data.dataset import DataConfig, Dataset


def load_splits(data: DataConfig, input_shape: Sequence[int]) -> Splits:
    """Return both splits of a data set of images, as a model of `input_shape` reads them.

    Raises:
        DataError: they are missing or damaged.
    """
    return Splits(
        training=_samples(data.open("train", input_shape)), held_out=_samples(data.open("held_out", input_shape))
    )


def _samples(dataset: Dataset) -> Samples:
    batch = dataset.batch(torch.arange(len(dataset)))
    return Samples(inputs=batch.inputs, labels=batch.targets)
