"""The handwritten digits that `python -m trainer.prepare_data` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from trainer.pytorch.data.dataset import DataConfig, InMemoryDataset
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class DigitsConfig(DataConfig):
    """1,797 handwritten digits, 8x8 pixels: half a megabyte, which every rank holds on its device."""

    dataset: Literal["digits"] = "digits"
    """Name of the data set; `--dataset NAME --help` explains the arguments of another."""

    in_memory: ClassVar[bool] = True

    def open(self, split: digits.SplitName, input_shape: Sequence[int]) -> InMemoryDataset:  # noqa: ARG002
        """Return a split; see `DataConfig.open`."""
        loaded = digits.load(self.data_dir, split)
        return InMemoryDataset(
            torch.from_numpy(loaded.images),  # pyright: ignore[reportUnknownMemberType]
            torch.from_numpy(loaded.labels),  # pyright: ignore[reportUnknownMemberType]
            classes=digits.NUM_CLASSES,
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the manifest; see `DataConfig.fingerprint`."""
        return digits.fingerprint(self.data_dir)
