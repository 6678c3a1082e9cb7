"""What a model is trained for, and by which number it is judged on samples that training has not seen."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


NOT_COUNTED = -100
"""A target that is not scored; it is the one that torch's cross-entropy leaves out."""


class Task(Enum):
    """What a model does, and what a data set is for: a run needs a model and a data set of the same task."""

    CLASSIFICATION = "classification of images"
    """Judged by accuracy."""
    LANGUAGE_MODELLING = "language modelling"
    """Predicts the next token; judged by loss and perplexity."""

    def score(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return what `scores` wants the mean of, as a sum over all targets but `NOT_COUNTED`: float64, no dimensions.

        Args:
            logits: [N, ..., classes].
            targets: int64 [N, ...].
        """
        if self is Task.CLASSIFICATION:
            return (logits.argmax(dim=-1) == targets).sum().double()
        flat = logits.float().flatten(0, -2)
        return cross_entropy(flat, targets.flatten(), reduction="sum", ignore_index=NOT_COUNTED).double()

    def scores(self, mean: float) -> dict[str, float]:
        """Return what is reported, by name, from the mean of `score` over all targets.

        `accuracy` is the share of targets that were predicted, 0 to 1; `loss` the cross-entropy in nats per token, and
        `perplexity` its exponential.
        """
        if self is Task.CLASSIFICATION:
            return {"accuracy": mean}
        return {"loss": mean, "perplexity": math.exp(min(mean, _LARGEST_EXPONENT))}


_LARGEST_EXPONENT = 700.0
"""Beyond it is what a float cannot hold; only a model that diverged has such a loss."""
