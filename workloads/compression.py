"""Compressed variants of a model: the ones that training publishes with it, and the one that a service serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.model_variants import ModelVariant
from workloads.checks import check_range


@checked("compression")
@dataclass(frozen=True, kw_only=True)
class Compression:
    """Variants that `trainer.train` publishes next to the model; pass `arguments` on to it."""

    variants: Sequence[ModelVariant] = ("int8",)
    """Which; a service picks one with `variant`."""
    max_accuracy_loss_points: float = 0.5
    """A variant that loses more percentage points of accuracy on held-out data is not published."""
    publish_inaccurate_variants: bool = False
    """Publish variants beyond `max_accuracy_loss_points`, too."""
    calibration_samples: int = 256
    """Training samples that decide the ranges of 8-bit activations."""
    sparsity: float = 0.5
    """Share that pruning removes: of the channels of each layer, or for `sparse` of all weights."""
    fine_tune_epochs: int = 5
    """Passes over the training data after pruning."""

    def __post_init__(self) -> None:
        """Refuse what the trainer would refuse when the training is over.

        Raises:
            RefusalError: naming the field, its value and what to write instead.
        """
        if not self.variants or len(set(self.variants)) != len(self.variants):
            limit = "must name at least one variant, each once"
            raise RefusalError(
                "compression.variants", tuple(self.variants), limit, 'use ("int8",), or omit compression'
            )
        if not 0 <= self.max_accuracy_loss_points <= 100:
            field, limit = "compression.max_accuracy_loss_points", "must be from 0 to 100"
            raise RefusalError(field, self.max_accuracy_loss_points, limit, "use 0.5")
        if not 0.05 <= self.sparsity <= 0.95:
            raise RefusalError("compression.sparsity", self.sparsity, "must be from 0.05 to 0.95", "use 0.5")
        check_range("compression.calibration_samples", self.calibration_samples, 1, 1_000_000)
        check_range("compression.fine_tune_epochs", self.fine_tune_epochs, 0, 10_000)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words for the command line of `trainer.train` or `trainer.export`."""
        publish = "publish_inaccurate_variants"
        return (
            "--variants",
            *self.variants,
            f"--max_accuracy_loss_points={self.max_accuracy_loss_points}",
            f"--{publish}" if self.publish_inaccurate_variants else f"--no_{publish}",
            f"--calibration_samples={self.calibration_samples}",
            f"--sparsity={self.sparsity}",
            f"--fine_tune_epochs={self.fine_tune_epochs}",
        )
