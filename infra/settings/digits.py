"""Settings of the example workload."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from infra.model_variants import ModelVariant
from infra.settings.fields import Count, CpuQuantity, DnsLabel, Model


class CompressionSettings(Model):
    """Compressed variants that the training publishes next to the model."""

    variants: tuple[ModelVariant, ...] = ("int8",)
    """Which of them; [] for none."""
    max_accuracy_loss_points: float = Field(default=0.5, ge=0, le=100)
    """A variant that loses more percentage points of accuracy on held-out images is not published."""
    publish_inaccurate_variants: bool = False
    """Publish variants beyond max_accuracy_loss_points, too."""
    calibration_samples: Count = Field(default=256, ge=1, le=1_000_000)
    """Training images that decide the ranges of 8-bit activations."""
    sparsity: float = Field(default=0.5, ge=0.05, le=0.95)
    """Share of channels or weights that pruning removes."""
    fine_tune_epochs: Count = Field(default=5, ge=0, le=10_000)
    """Passes over the training images after pruning."""


class DigitsSettings(Model):
    """The example every environment can run: train on handwritten digits, export, serve."""

    enabled: bool = True
    """Whether the stack includes the example."""
    workers: Count = Field(default=2, ge=1, le=64)
    """Training pods; each runs one torchrun agent."""
    cpus_per_worker: CpuQuantity = "500m"
    """CPU request of one training pod."""
    pool: DnsLabel | None = None
    """Node pool of the training pods. Default: any pool whose nodes fit."""
    gpus_per_worker: int = Field(default=0, ge=0, le=8, strict=True)
    """Whole GPUs per training pod, one rank each. Default: none; one rank on CPUs."""
    epochs: Count = Field(default=10, ge=1, le=100_000)
    """Passes over the training images."""
    batch_size: Count = Field(default=32, ge=1, le=4096)
    """Images per step over all ranks; must be a multiple of the number of ranks."""
    width: Count = Field(default=16, ge=4, le=1024, multiple_of=4)
    """Channels of the model's first layer: a multiple of 4, the number of normalization groups."""
    seed: Count = Field(default=0, ge=0)
    """Seed of weights and data order."""
    replicas: Count = Field(default=1, ge=0, le=64)
    """Serving pods."""
    compression: CompressionSettings = CompressionSettings()
    """Compressed variants of the model."""
    variant: ModelVariant | None = None
    """Variant that the service serves, one of those of compression. Default: the model itself."""

    @property
    def ranks_per_worker(self) -> int:
        """Training processes of one pod."""
        return max(1, self.gpus_per_worker)

    @model_validator(mode="after")
    def _the_served_variant_is_published(self) -> Self:
        published = self.compression.variants
        if self.variant is not None and self.variant not in published:
            raise ValueError(
                f"variant = {self.variant}: is not published by the training. Fix: compression: {{variants:"
                f" [{', '.join((*published, self.variant))}]}}"
            )
        return self

    @model_validator(mode="after")
    def _every_rank_gets_as_much(self) -> Self:
        ranks = self.workers * self.ranks_per_worker
        if self.batch_size % ranks:
            counted = f"{ranks} ranks (workers x GPUs per worker)" if self.gpus_per_worker else f"workers = {ranks}"
            raise ValueError(
                f"batch_size = {self.batch_size}: is not a multiple of {counted}. Fix: use"
                f" {ranks * max(1, self.batch_size // ranks)}"
            )
        return self
