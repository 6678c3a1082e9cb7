"""CIFAR-10 in its binary version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from trainer.pytorch.data.dataset import DataConfig, InMemoryDataset
from trainer.training import cifar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.training.digits import SplitName


@dataclass(frozen=True, kw_only=True)
class Cifar10Config(DataConfig):
    """60,000 colour images, 32x32 pixels, of ten classes: <data_dir>/cifar-10-batches-bin as it is published.

    Every rank holds them on its device as bytes, 184 MB. The published test images are the held-out ones.
    """

    dataset: Literal["cifar10"] = "cifar10"
    """Name of the data set; `--dataset NAME --help` explains the arguments of another."""

    in_memory: ClassVar[bool] = True

    def open(self, split: SplitName, input_shape: Sequence[int]) -> InMemoryDataset:  # noqa: ARG002
        """Return a split; see `DataConfig.open`."""
        loaded = cifar.load(self.data_dir, "train" if split == "train" else "test")
        images, labels = torch.tensor(loaded.images), torch.tensor(loaded.labels).long()
        # training can do without the file of names
        names = cifar.load_names(self.data_dir) if cifar.has_names(self.data_dir) else ()
        return InMemoryDataset(images, labels, classes=cifar.NUM_CLASSES, class_names=names)

    def fingerprint(self) -> str:
        """Return a SHA-256 over all samples; see `DataConfig.fingerprint`."""
        return cifar.fingerprint(self.data_dir)
