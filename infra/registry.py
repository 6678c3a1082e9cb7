"""Image references and the one place they are pulled from: parsing, rewriting, finding every image of a manifest.

Pure: `infra/image_policy.py` applies it to all that the program deploys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pulumi

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DEFAULT_HOST = "docker.io"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_REST = re.compile(
    rf"(?P<path>{_PATH})(?P<tag>:\w[\w.-]{{0,127}})?(?P<digest>@[a-z0-9+._-]+:[0-9a-f]{{32,}})?", re.ASCII
)
_REGISTRY = re.compile(rf"(?P<host>{_HOST})(?:/{_PATH})?")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_Object = dict[str, Any]
_T = TypeVar("_T")
_R = TypeVar("_R")
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

        The part before the first slash is a host if it has a dot or a colon, is `localhost` or has upper case letters
        (distribution/reference, `splitDockerDomain`).

        Raises:
            RefusalError: it is no image reference.
        """
        first, slash, rest = text.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
        host = first if is_host else DEFAULT_HOST
        found = _REST.fullmatch(rest if is_host else text)
        if not found or not re.fullmatch(_HOST, host):
            raise RefusalError(
                "image", text, "is no image reference", "write [host[:port]/]path[:tag][@digest] with a lower-case path"
            )
        path = found["path"]
        if host in ("index.docker.io", DEFAULT_HOST):
            host, path = DEFAULT_HOST, path if "/" in path else f"library/{path}"
        return cls(host=host, path=path, version=(found["tag"] or "") + (found["digest"] or ""))


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Where every image is pulled from."""

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
            RefusalError: `reference` is no image reference.
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
        raise ValueError(f"has upper case letters. Fix: write {value.lower()}")
    host, _, path = value.partition("/")
    if ":" in path or "@" in path:
        raise ValueError(f"ends in a tag or digest. Fix: write {host}/{re.split('[:@]', path)[0]}")
    if not _REGISTRY.fullmatch(value) or not ("." in host or ":" in host or host == "localhost"):
        raise ValueError("names no registry host. Fix: write the host first, such as registry.example/team")
    return value


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
        for key in _CONTAINERS:
            yield from (container["image"] for container in _objects(pod.get(key)) if "image" in container)
        for volume in _objects(pod.get("volumes")):
            if "reference" in volume.get("image", {}):
                yield volume["image"]["reference"]


def with_image_policy(node: object, rewrite: Callable[[str], str], pull_secrets: Sequence[str] = ()) -> object:
    """Return a manifest with every image rewritten and pull secrets added to every pod; Outputs may be anywhere in it.

    Raises:
        RefusalError: a part is an object of the SDK's classes instead of a plain dict, which cannot be looked into.
    """
    if isinstance(node, pulumi.Output):
        output = cast("pulumi.Output[object]", node)
        return output.apply(lambda known: with_image_policy(known, rewrite, pull_secrets))
    if isinstance(node, list | tuple):
        return [with_image_policy(item, rewrite, pull_secrets) for item in cast("list[object]", node)]
    if isinstance(node, dict):
        fields = cast("_Object", node)
        walked = {key: with_image_policy(value, rewrite, pull_secrets) for key, value in fields.items()}
        is_pod = isinstance(fields.get("containers"), list | pulumi.Output)
        return _pod(walked, rewrite, pull_secrets) if is_pod else walked
    if node is None or isinstance(node, str | int | float | bool):
        return node
    raise RefusalError(
        "manifest", type(node).__name__, "hides its images from the registry setting", "write it as a plain dict"
    )


def _pod(pod: _Object, rewrite: Callable[[str], str], pull_secrets: Sequence[str]) -> _Object:
    changed = dict(pod)
    for key in _CONTAINERS:
        if key in pod:
            changed[key] = _lifted(pod[key], lambda found: [_with_image(item, "image", rewrite) for item in found])
    if "volumes" in pod:
        changed["volumes"] = _lifted(pod["volumes"], lambda found: [_volume(item, rewrite) for item in found])
    if pull_secrets:
        wanted = [{"name": name} for name in pull_secrets]
        own: list[_Object] = pod.get("imagePullSecrets") or []
        changed["imagePullSecrets"] = _lifted(own, lambda found: found + [new for new in wanted if new not in found])
    return changed


def _volume(volume: _Object, rewrite: Callable[[str], str]) -> _Object:
    return {**volume, "image": _with_image(volume["image"], "reference", rewrite)} if "image" in volume else volume


def _with_image(holder: _Object, key: str, rewrite: Callable[[str], str]) -> _Object:
    return {**holder, key: _lifted(holder[key], rewrite)} if key in holder else holder


def _lifted(value: _T | pulumi.Output[_T], change: Callable[[_T], _R]) -> _R | pulumi.Output[_R]:
    return cast("pulumi.Output[_T]", value).apply(change) if isinstance(value, pulumi.Output) else change(value)


def _objects(items: object) -> list[_Object]:
    return cast("list[_Object]", items) or []
