"""Settings of where images come from."""

from __future__ import annotations

from infra.images import TrainerVariant
from infra.settings.fields import Model, PinnedImage


class ImageSettings(Model):
    """Where the images come from."""

    trainer: PinnedImage | None = None
    """Full reference of the trainer image, where a registry holds it. Default: the locally built one."""
    trainer_variant: TrainerVariant = "cpu"
    """`gpu` holds what only a GPU needs (triton, all NVIDIA libraries); `cpu` leaves it out."""
