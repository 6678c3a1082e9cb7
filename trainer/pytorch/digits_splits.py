"""The handwritten digits as compression takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.data import load_samples
from trainer.pytorch.trained_model import Splits

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.training.digits import SplitName


def load_splits(data_dir: Path) -> Splits:
    """Return both splits that `python -m trainer.prepare_data` wrote, on the CPU.

    Raises:
        DataError: they are missing or damaged.
    """
    return Splits(training=_split(data_dir, "train"), held_out=_split(data_dir, "held_out"))


def _split(data_dir: Path, split: SplitName) -> Samples:
    batch = load_samples(data_dir, split, torch.device("cpu"))
    return Samples(inputs=batch.images, labels=batch.labels)
