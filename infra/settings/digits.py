"""Settings of the example workload."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from infra.settings.fields import Count, CpuQuantity, DnsLabel, Model


class DigitsSettings(Model):
    """The example every environment can run: train on handwritten digits, export, serve."""

    enabled: bool = True
    """Whether the stack declares the example at all."""
    workers: Count = Field(default=2, ge=1, le=64)
    """Training pods; each runs one torchrun agent."""
    cpus_per_worker: CpuQuantity = "500m"
    """CPU request of one training pod."""
    pool: DnsLabel | None = None
    """Node pool of the training pods. Default: any whose nodes fit."""
    gpus_per_worker: int = Field(default=0, ge=0, le=8, strict=True)
    """Whole GPUs of one training pod, a rank for each. Default: none, one rank on CPUs."""
    epochs: Count = Field(default=10, ge=1, le=100_000)
    """Passes over the training images."""
    batch_size: Count = Field(default=32, ge=1, le=4096)
    """Images per step, over all ranks; their number must divide it."""
    width: Count = Field(default=16, ge=1, le=1024)
    """Channels of the model's first layer."""
    seed: Count = Field(default=0, ge=0)
    """Seed of weights and data order."""
    replicas: Count = Field(default=1, ge=0, le=64)
    """Serving pods."""

    @property
    def ranks_per_worker(self) -> int:
        """Training processes of one pod."""
        return max(1, self.gpus_per_worker)

    @model_validator(mode="after")
    def _every_rank_gets_as_much(self) -> Self:
        ranks = self.workers * self.ranks_per_worker
        if self.batch_size % ranks:
            counted = f"{ranks} ranks (workers x GPUs per worker)" if self.gpus_per_worker else f"workers = {ranks}"
            raise ValueError(
                f"batch_size = {self.batch_size}: is no multiple of {counted}. Fix: use"
                f" {ranks * max(1, self.batch_size // ranks)}"
            )
        return self
