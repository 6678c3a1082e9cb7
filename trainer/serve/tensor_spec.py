"""The configuration of one input or output of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.serve.datatypes import Datatype


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One input or output."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    """Shape as clients see it: with the batch dimension if the model has one; -1 is any size."""
    is_squeezed: bool = False
    """The model has no dimension for the last one, which is 1: `dims: [1] reshape { shape: [] }`."""
    labels: tuple[str, ...] = ()
    """Names of an output's classes, in their order; a class may have none."""
