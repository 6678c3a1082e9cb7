"""The variants of a model that are published with it, and the loss of accuracy that they may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from trainer.common.validation import at_least, between, more_than

Variant = Literal["int8", "int8-dynamic", "pruned", "pruned-int8", "sparse", "pt2", "compiled"]
"""int8: weights and activations in 8 bits (static quantisation). int8-dynamic: linear layers alone, without
calibration. pruned: whole channels removed. sparse: single weights set to zero. pt2: not smaller, in the format of
torch.export. compiled: the same as native code."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True, kw_only=True)
class CompressionConfig:
    """Variants to publish next to the model, each only if it is nearly as accurate as the model itself."""

    variants: tuple[Variant, ...] = ()
    """Variants to publish. int8: static quantisation; int8-dynamic: of linear layers; pruned: without the channels of
    least weight; pruned-int8: both; sparse: the smallest weights are zero; pt2: the format of torch.export; compiled:
    that as native code, by a C++ compiler."""
    max_accuracy_loss_points: float = 0.5
    """A variant that loses more percentage points of accuracy on held-out data is not published."""
    publish_inaccurate_variants: bool = False
    """Publish variants also beyond `max_accuracy_loss_points`."""
    calibration_samples: int = 256
    """Training samples that decide the ranges of 8-bit activations."""
    sparsity: float = 0.5
    """Share of each layer's channels (pruned) or of all weights (sparse) that pruning removes."""
    fine_tune_epochs: int = 5
    """Passes over the training data after pruning."""
    fine_tune_learning_rate: float = 1e-3
    """Of AdamW, after pruning."""

    def __post_init__(self) -> None:
        if len(set(self.variants)) != len(self.variants):
            raise ValueError(f"variants={' '.join(self.variants)}: must be different ones. Fix: name each once")
        between("max_accuracy_loss_points", self.max_accuracy_loss_points, 0, 100)
        at_least("calibration_samples", self.calibration_samples, 1)
        between("sparsity", self.sparsity, 0.05, 0.95)
        at_least("fine_tune_epochs", self.fine_tune_epochs, 0)
        more_than("fine_tune_learning_rate", self.fine_tune_learning_rate, 0)
