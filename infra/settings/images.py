"""Settings of where images come from."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, StringConstraints, model_validator

from infra.images import TrainerVariant
from infra.registry import check_registry
from infra.settings.fields import DnsSubdomain, Model, PinnedImage


class ImageSettings(Model):
    """Where the images come from."""

    trainer: PinnedImage | None = None
    """Full reference of the trainer image, where a registry holds it. Default: the locally built one."""
    tensorflow: PinnedImage | None = None
    """Full reference of the image of TensorFlow jobs, where a registry holds it. Default: the locally built one."""
    trainer_variant: TrainerVariant = "cpu"
    """`gpu` holds what only a GPU needs (triton, all NVIDIA libraries); `cpu` leaves it out. Of both images."""
    registry: Annotated[str, AfterValidator(check_registry)] | None = None
    """Mirror of every image, host[:port][/path]; below it each keeps its path without its own host. Default: none."""
    flatten: bool = False
    """Join the path of a mirrored image by hyphens, where a registry allows only <namespace>/<name>."""
    pull_secrets: tuple[DnsSubdomain, ...] = ()
    """Secrets (kubernetes.io/dockerconfigjson, there in every namespace with pods) that pods pull images with."""
    credential_helper: bool = False
    """Whether ACK's managed add-on lets pods pull from the account's Container Registry without secrets."""
    acr_instance_id: Annotated[str, StringConstraints(pattern=r"^cri-[a-z0-9]+$")] | None = None
    """Existing Container Registry Enterprise instance the add-on is for; none is ordered. Default: Personal Edition."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.flatten and not self.registry:
            raise ValueError(
                "flatten = True: there is no registry to rewrite to. Fix: set images.registry, or leave it"
            )
        if self.acr_instance_id and not self.credential_helper:
            raise ValueError(
                f"acr_instance_id = {self.acr_instance_id!r}: only the credential helper uses it. Fix: set"
                " images.credential_helper to true, or leave it out"
            )
        return self
