"""Image references and the registry they are pulled from: parsing, rewriting, finding every image of a manifest.

Pure: `infra/build.py` rewrites them in all that the program deploys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_HOST = "docker.io"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_REST = re.compile(
    rf"(?P<path>{_PATH})(?P<tag>:\w[\w.-]{{0,127}})?(?P<digest>@[a-z0-9+._-]+:[0-9a-f]{{32,}})?", re.ASCII
)
_REGISTRY = re.compile(rf"(?P<host>{_HOST})(?:/{_PATH})?")
_LONGEST_PATH = 255
"""Length without the host, but with Docker Hub's `library/` (distribution/reference 0.6.0,
RepositoryNameTotalLengthMax)."""
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
"""Fields of a pod spec that hold containers."""
_Object = dict[str, Any]
_CONTAINER_REGISTRY = re.compile(
    r"[a-z0-9-]+?(?P<vpc>-vpc)?\.(?P<region>[a-z0-9-]+)(?P<personal>\.personal)?\.cr\.aliyuncs\.com"
)
"""Hosts of Enterprise Edition instances, and of Personal Edition ones since 9 September 2024."""
_UPPER_CASE = re.compile(r"[A-Z]")


@dataclass(frozen=True, kw_only=True)
class ImageReference:
    """An image reference with the defaults of the distribution specification written out."""

    host: str
    """Registry, with its port if it has one; docker.io where the reference names none."""
    path: str
    """Repository without the host; `library/` of Docker Hub's official images written out."""
    version: str
    """`:tag`, `@digest` or both as they were written; empty for neither."""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Take a reference apart as container runtimes do.

        The part before the first slash is a host if it has a dot or a colon, is `localhost` or has uppercase letters
        (distribution/reference, `splitDockerDomain`).

        Raises:
            RefusalError: it is not a valid image reference.
        """
        first, slash, rest = text.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
        host = first if is_host else DEFAULT_HOST
        parts = _REST.fullmatch(rest if is_host else text)
        if not parts or not re.fullmatch(_HOST, host):
            raise RefusalError(
                "image",
                text,
                "is not a valid image reference",
                "write [host[:port]/]path[:tag][@digest] with a lowercase path",
            )
        path = parts["path"]
        if host in ("index.docker.io", DEFAULT_HOST):
            host, path = DEFAULT_HOST, path if "/" in path else f"library/{path}"
        if len(path) > _LONGEST_PATH:
            limit = f"its path has {len(path)} characters, and container runtimes accept at most {_LONGEST_PATH}"
            raise RefusalError("image", text, limit, "shorten the repository's name")
        return cls(host=host, path=path, version=(parts["tag"] or "") + (parts["digest"] or ""))


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """The registry that every image is pulled from."""

    registry: str
    """Host and, if any, path below it: my-acr-registry-vpc.cn-hangzhou.cr.aliyuncs.com/mirror."""
    flatten: bool = False
    """Join an image's path by hyphens into one repository name, for registries that allow no deeper one."""

    @property
    def host(self) -> str:
        """The registry's host with its port."""
        return self.registry.partition("/")[0]

    def rewrite(self, reference: str) -> str:
        """Return where the mirror holds an image: `<registry>/<path without the original host>:<tag>`.

        What is on the mirror's host already stays as it is, so rewriting twice is rewriting once.

        Raises:
            RefusalError: `reference` is not a valid image reference.
        """
        image = ImageReference.parse(reference)
        if image.host == self.host:
            return reference
        path = image.path.replace("/", "-") if self.flatten else image.path
        return f"{self.registry}/{path}{image.version}"


def rewrite_image(reference: str, registry: str) -> str:
    """Return where the mirror `registry` holds an image, its path kept (see `Mirror.rewrite`)."""
    return Mirror(registry=registry).rewrite(reference)


def check_registry(value: str) -> str:
    """Return a registry that images can be rewritten to.

    Raises:
        ValueError: it has a scheme, a trailing slash, a tag or upper case letters, or names no host.
    """
    without_scheme = re.sub(r"^[a-z]+://", "", value, flags=re.IGNORECASE)
    if without_scheme != value:
        raise ValueError(f"has a scheme. Fix: write {without_scheme.rstrip('/')}")
    if value.endswith("/"):
        raise ValueError(f"ends in a slash. Fix: write {value.rstrip('/')}")
    if _UPPER_CASE.search(value):
        raise ValueError(f"has uppercase letters. Fix: write {value.lower()}")
    host, _, path = value.partition("/")
    if ":" in path or "@" in path:
        raise ValueError(f"ends in a tag or digest. Fix: write {host}/{re.split('[:@]', path)[0]}")
    if not _REGISTRY.fullmatch(value) or not ("." in host or ":" in host or host == "localhost"):
        raise ValueError("has no registry host. Fix: write the host first, such as registry.example/team")
    return value


@dataclass(frozen=True, kw_only=True)
class Login:
    """The login of pods to a registry."""

    secrets: bool
    """Whether they name Secrets."""
    helper: bool
    """Whether ACK's credential helper does it for them."""
    instance: str | None
    """The Enterprise Edition instance that the helper was given, if any."""


def check_pulled(name: str, reference: str, login: Login) -> None:
    """Refuse an image or a registry of Alibaba Cloud that no pod can pull from, whatever it holds.

    Instances of Container Registry Personal Edition that were created since 9 September 2024 have hosts of their own,
    allow no anonymous pull, give images at their VPC address only, and are not served by ACK's credential helper
    (Alibaba Cloud, "Access restrictions of Personal Edition instances with exclusive endpoints"; "Pull images without
    using a secret"). The helper serves an Enterprise Edition instance whose id it has.

    Raises:
        ValueError: it cannot be pulled like that.
    """
    parts = _container_registry(reference)
    if not parts:
        return
    if parts["personal"] and not parts["vpc"]:
        raise ValueError(
            f"{name} = {reference!r}: a Personal Edition instance like this serves images only at its VPC address. Fix:"
            f" write {parts[0].replace('.', '-vpc.', 1)}"
        )
    if parts["personal"] and not login.secrets:
        raise ValueError(
            f"{name} = {reference!r}: a Personal Edition instance like this serves images only to pods that log in,"
            " which ACK's credential helper does not do. Fix: name a Secret with its login under images.pull_secrets,"
            " or use an Enterprise Edition instance with images.credential_helper"
        )
    if not parts["personal"] and login.helper and not login.instance:
        raise ValueError(
            f"{name} = {reference!r}: is an Enterprise Edition instance, but without an instance id the credential"
            " helper supports only Personal Edition. Fix: set images.acr_instance_id"
        )


def private_region(reference: str) -> str | None:
    """Return the region from whose VPCs alone an image or registry is reached; None if it is not at such an address."""
    parts = _container_registry(reference)
    return parts["region"] if parts and parts["vpc"] else None


def _container_registry(reference: str) -> re.Match[str] | None:
    return _CONTAINER_REGISTRY.fullmatch(reference.partition("/")[0])


def pod_specs(node: object) -> Iterator[_Object]:
    """Yield every pod spec inside a plain manifest, wherever its kind keeps it."""
    if isinstance(node, dict):
        spec = cast("_Object", node)
        if isinstance(spec.get("containers"), list):
            yield spec
        for value in spec.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for item in cast("list[object]", node):
            yield from pod_specs(item)


def images_of(manifest: object) -> Iterator[str]:
    """Yield every image that a plain manifest makes a node pull: of containers of every sort and of image volumes."""
    for pod in pod_specs(manifest):
        for key in CONTAINERS:
            yield from (container["image"] for container in _objects(pod.get(key)) if "image" in container)
        for volume in _objects(pod.get("volumes")):
            if "reference" in volume.get("image", {}):
                yield volume["image"]["reference"]


def _objects(items: object) -> list[_Object]:
    return cast("list[_Object]", items) or []
