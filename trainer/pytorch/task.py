"""The task of a training: its loss, and its metric on samples that the model has not seen."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from trainer.training.digits import DataError, unknown_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


NOT_COUNTED = -100
"""A target of a language model that neither its loss nor its score depends on; torch's cross-entropy leaves it out."""


def count(targets: Tensor) -> Tensor:
    """Return how many of the targets are counted: int64, no dimensions."""
    return (targets != NOT_COUNTED).sum()


def mean_over_counted(total: float, counted: float) -> float:
    """Return a sum over the counted targets of all ranks and microbatches, divided by their number; 0 without any."""
    return total / max(counted, 1.0)


def _refuse_other_shapes(logits: Tensor, targets: Tensor) -> None:
    """Refuse targets that would be broadcast to the predictions, or counted as more of them."""
    if targets.shape != logits.shape[:-1]:
        expected = f"must be {list(logits.shape[:-1])} for a model that returns {list(logits.shape)}"
        raise DataError(
            f"targets have the shape {list(targets.shape)}; {expected}. Fix: the number of a class for each prediction"
        )


class Task(Enum):
    """What a model does, and what a data set is for: a run needs a model and a data set of the same task."""

    CLASSIFICATION = "classification of images"
    """Judged by accuracy and loss."""
    LANGUAGE_MODELLING = "language modelling"
    """Predicts the next token; judged by loss and perplexity."""

    def loss_sum(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy of all counted targets in nats, as a sum: float32, no dimensions.

        Not a number where a target is unknown, for which GPUs would end the process: asking them before each step
        whether there is one would make them wait.

        Args:
            logits: [N, ..., classes].
            targets: int64 [N, ...].

        Raises:
            DataError: the targets have another shape.
        """
        _refuse_other_shapes(logits, targets)
        is_known = ~unknown_labels(targets, logits.shape[-1], self.not_counted)
        flat, counted = logits.float().flatten(0, -2), targets.where(is_known, NOT_COUNTED).flatten()
        return cross_entropy(flat, counted, reduction="sum", ignore_index=NOT_COUNTED).where(is_known.all(), math.nan)

    @property
    def not_counted(self) -> int | None:
        """A target that is not a class, and allowed."""
        return NOT_COUNTED if self is Task.LANGUAGE_MODELLING else None

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures by which a model is judged, in the order of `score`."""
        return ("accuracy", "loss") if self is Task.CLASSIFICATION else ("loss",)

    def score(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the figures whose means `scores` needs, as sums over all targets but `NOT_COUNTED`: float64 [figures].

        Args:
            logits: [N, ..., classes].
            targets: int64 [N, ...]; all are classes or `NOT_COUNTED`.

        Raises:
            DataError: the targets have another shape.
        """
        _refuse_other_shapes(logits, targets)
        flat = logits.float().flatten(0, -2)
        loss = cross_entropy(flat, targets.flatten(), reduction="sum", ignore_index=NOT_COUNTED).double()
        if self is Task.CLASSIFICATION:
            return torch.stack(((logits.argmax(dim=-1) == targets).sum().double(), loss))
        return loss[None]

    def scores(self, means: Sequence[float]) -> dict[str, float]:
        """Return the reported scores, by name, from the means of `score` over all counted targets.

        `accuracy` is the share of targets that were predicted, 0 to 1; `loss` the cross-entropy in nats per target, and
        `perplexity`, of language models, its exponential.
        """
        scores = dict(zip(self.figures, means, strict=True))
        if self is Task.LANGUAGE_MODELLING:
            scores["perplexity"] = math.exp(min(scores["loss"], _LARGEST_EXPONENT))
        return scores


_LARGEST_EXPONENT = 700.0
"""Beyond it is what a float cannot hold; only a model that diverged has such a loss."""
