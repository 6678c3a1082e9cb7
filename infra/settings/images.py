"""Settings of the sources of images and Python packages."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.closed_addresses import CLOSED
from infra.cuda import CudaVersion
from infra.registry import Login, check_pulled, check_registry
from infra.settings.fields import NUMBER_AS_TEXT, DnsLabel, DnsSubdomain, Model, PinnedImage

TrainerVariant = Literal["cpu", "gpu"]
_WIDEST_INDEX = 16
"""Shortest prefix of an index's addresses: more than a company's index has, and less than its whole network."""


def _index_url(value: str) -> str:
    """Refuse what pip takes for no index, and credentials, which every pod and the stack's outputs would show."""
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError as error:
        raise ValueError(f"{error}. Fix: write https://HOST/PATH") from None
    if url.scheme not in {"http", "https"} or not url.hostname or port == 0 or url.query or url.fragment:
        raise ValueError(
            "is not the address of an index. Fix: write https://HOST/PATH, such as https://pypi.example/simple"
        )
    if url.username is not None or url.password is not None:
        raise ValueError("has credentials. Fix: omit them; jobs name theirs in PIP_INDEX_URL in `secret_env`")
    return value


def _index_addresses(values: tuple[IPv4Network | Literal["internet"], ...]) -> tuple[IPv4Network | str, ...]:
    for value in values:
        if not isinstance(value, IPv4Network):
            continue
        if closed := next((each for each in CLOSED if value.overlaps(IPv4Network(each))), None):
            raise ValueError(
                f"{value}: contains {CLOSED[closed]} ({closed}). Fix: write the hosts that serve the index"
            )
        if value.prefixlen < _WIDEST_INDEX:
            raise ValueError(
                f"{value}: is wider than an index needs. Fix: write the hosts that serve it, such as 10.64.3.7/32"
            )
    return values


class PackageIndexSettings(Model):
    """An index of Python packages, such as a company's, or a cache of the public one where pods reach no internet."""

    url: Annotated[str, AfterValidator(_index_url)]
    """Its address as pip takes it (PEP 503), such as `https://pypi.example/simple`. Over http, anyone on the way can
    replace packages."""
    addresses: Annotated[
        tuple[IPv4Network | Literal["internet"], ...], Field(min_length=1), AfterValidator(_index_addresses)
    ]
    """Where it is: CIDRs, such as `10.64.3.7/32`, or `internet`. Pods that install packages may connect to them, on
    the port of `url`; network policies know no host names."""

    @property
    def port(self) -> int:
        """Its TCP port."""
        url = urlsplit(self.url)
        return url.port or (443 if url.scheme == "https" else 80)


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

    @property
    def pulled(self) -> dict[str, str]:
        """The registry and the images that are set, by the names of their settings."""
        named = {name: getattr(self, name) for name in ("registry", "trainer", "serving", "tensorflow")}
        return {name: value for name, value in named.items() if value}

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
        if self.credential_helper and self.pull_secrets:
            raise ValueError(
                f"pull_secrets = {list(self.pull_secrets)!r}: pods that name a Secret get none of the credential"
                " helper's. Fix: use one of the two"
            )
        login = Login(secrets=bool(self.pull_secrets), helper=self.credential_helper, instance=self.acr_instance_id)
        for name, reference in self.pulled.items():
            check_pulled(name, reference, login)
        for name, value in (
            ("acr_instance_id", self.acr_instance_id),
            ("credential_namespaces", list(self.credential_namespaces)),
        ):
            if value and not self.credential_helper:
                raise ValueError(
                    f"{name} = {value!r}: only the credential helper uses it. Fix: set images.credential_helper to"
                    " true, or omit it"
                )
        return self
