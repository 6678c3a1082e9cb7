"""Settings of where images come from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, StringConstraints, model_validator

from infra.cuda import CudaVersion
from infra.registry import check_pulled_without_secrets, check_registry
from infra.settings.fields import NUMBER_AS_TEXT, DnsLabel, DnsSubdomain, Model, PinnedImage

TrainerVariant = Literal["cpu", "gpu"]


class ImageSettings(Model):
    """Where the images come from."""

    trainer: PinnedImage | None = None
    """Full reference of the image for PyTorch and MPI jobs in a registry. Default: the locally built image."""
    serving: PinnedImage | None = None
    """Full reference of the image for services in a registry. Default: `trainer` if set, which must then contain
    trainer/serve, too; else the locally built image."""
    tensorflow: PinnedImage | None = None
    """Full reference of the image for TensorFlow jobs in a registry. Default: the locally built image."""
    trainer_cuda: Annotated[CudaVersion, NUMBER_AS_TEXT] | None = None
    """CUDA version in `trainer`, such as 12.8, if it is not built from these sources; drivers are checked against
    it."""
    tensorflow_cuda: Annotated[CudaVersion, NUMBER_AS_TEXT] | None = None
    """The same for `tensorflow`."""
    trainer_variant: TrainerVariant = "cpu"
    """Variant of all three: `gpu` includes what only GPUs need (triton, all NVIDIA libraries); `cpu` omits it."""
    registry: Annotated[str, AfterValidator(check_registry)] | None = None
    """Mirror for every image, host[:port][/path]; each image keeps its path without the original host. Default:
    none."""
    flatten: bool = False
    """Join the path of a mirrored image with hyphens, for registries that allow only <namespace>/<name>."""
    pull_secrets: tuple[DnsSubdomain, ...] = ()
    """Secrets (kubernetes.io/dockerconfigjson, present in every namespace with pods) that pods pull images with."""
    credential_helper: bool = False
    """Whether ACK's managed add-on lets pods pull from the account's Container Registry without secrets: from an
    Enterprise Edition instance, or a Personal Edition one created before 9 September 2024."""
    credential_namespaces: tuple[DnsLabel, ...] = ()
    """Namespaces whose pods that add-on serves. Default: all, although Container Registry advises to name them."""
    acr_instance_id: Annotated[str, StringConstraints(pattern=r"^cri-[a-z0-9]+$")] | None = None
    """Existing Container Registry Enterprise Edition instance for the add-on; the stack orders none. Default: Personal
    Edition."""
    link_vpc: bool | None = None
    """Whether the stack links the VPC with that instance, so that nodes reach it by its VPC address. Default: if the
    stack creates the VPC. Set false where somebody linked it already, or where another account owns the instance."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.flatten and not self.registry:
            raise ValueError(
                "flatten = True: there is no registry to rewrite to. Fix: set images.registry, or omit flatten"
            )
        for name, cuda, image in (
            ("trainer", self.trainer_cuda, self.trainer),
            ("tensorflow", self.tensorflow_cuda, self.tensorflow),
        ):
            if cuda and not image:
                raise ValueError(
                    f"{name}_cuda = {cuda!r}: applies only to an image of yours; the one built from these sources has"
                    f" a known CUDA version. Fix: name yours under images.{name}, or omit {name}_cuda"
                )
        if self.registry and not self.pull_secrets:
            check_pulled_without_secrets(self.registry)
        for name, value in (
            ("acr_instance_id", self.acr_instance_id),
            ("credential_namespaces", list(self.credential_namespaces)),
        ):
            if value and not self.credential_helper:
                raise ValueError(
                    f"{name} = {value!r}: only the credential helper uses it. Fix: set images.credential_helper to"
                    " true, or omit it"
                )
        if self.link_vpc and not self.acr_instance_id:
            raise ValueError(
                "link_vpc = True: there is no instance to link. Fix: set images.acr_instance_id, or omit link_vpc"
            )
        return self

    def links_vpc(self, *, created: bool) -> bool:
        """Return whether the stack links the VPC with the instance; `created`: whether the VPC is the stack's own."""
        return created if self.link_vpc is None else self.link_vpc
