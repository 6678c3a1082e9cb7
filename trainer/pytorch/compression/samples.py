"""Inputs with labels, in the form that every step of compression takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Inputs float32 [N, …] and labels int64 [N], on the CPU."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[Samples]:
        """Return consecutive parts; the last one may be smaller."""
        for begin in range(0, len(self), size):
            part = slice(begin, begin + size)
            yield Samples(inputs=self.inputs[part], labels=self.labels[part])

    def shuffled(self, generator: torch.Generator) -> Samples:
        """Return all of them in an order that the generator decides."""
        order = torch.randperm(len(self), generator=generator)
        return Samples(inputs=self.inputs[order], labels=self.labels[order])
