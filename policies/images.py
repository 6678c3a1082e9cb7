"""Rules about images: pinned versions and allowed registries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.errors import RefusalError
from infra.registry import ImageReference
from policies.resources import containers
from policies.rule import Finding, Rule, RuleConfig, message
from policies.values import Unknown, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_MOVING = frozenset({"", "latest", "stable", "main", "master", "nightly", "edge", "dev"})
_OPAQUE = ("kubernetes:helm.sh/v3:Release", "kubernetes:kustomize/v2:")


class PinnedImages(RuleConfig):
    """Configuration of `images-pinned`."""

    digests: bool = False
    """Whether only digests count as pinned."""


class Registries(RuleConfig):
    """Configuration of `images-from-registry`."""

    registries: tuple[str, ...] = ()
    """Prefixes of allowed images, such as `registry.example/team`; without any, every registry is allowed."""


def _images(resource: Resource) -> Iterator[tuple[str, str | Unknown]]:
    for container in containers(resource):
        image = read(container.value, "image")
        if isinstance(image, str | Unknown):
            yield f"container {container.name}: image", image


def _pinned(resource: Resource, config: PinnedImages) -> Iterator[Finding]:
    for field, image in _images(resource):
        if isinstance(image, Unknown):
            yield image
            continue
        try:
            tag, _, digest = ImageReference.parse(image).version.partition("@")
        except RefusalError as refusal:
            yield str(refusal)
            continue
        if digest or (not config.digests and tag.removeprefix(":") not in _MOVING):
            continue
        allowed = "only digests are allowed" if config.digests else "a tag that moves, or none, is not allowed"
        yield message(field, image, allowed, "append @sha256:…" if config.digests else "name a version or a digest")


def _from_registry(resource: Resource, config: Registries) -> Iterator[Finding]:
    allowed = tuple(f"{registry.rstrip('/')}/" for registry in config.registries)
    for field, image in _images(resource) if allowed else ():
        if isinstance(image, Unknown):
            yield image
        elif not image.startswith(allowed):
            listed = ", ".join(config.registries)
            yield message(
                field, image, f"only images of {listed} are allowed", "mirror it there (athanor:images.registry)"
            )


def _opaque(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type.startswith(_OPAQUE):
        yield message(
            resource.name,
            resource.type,
            "renders its pods where no rule sees them",
            "declare the chart's objects: kubernetes.helm.v4.Chart, or manifests",
        )


RULES = (
    Rule(
        name="images-pinned",
        demand="Images have a version or a digest.",
        severity="high",
        config=PinnedImages,
        check=_pinned,
    ),
    Rule(
        name="images-from-registry",
        demand="Images come from the environment's registries.",
        severity="high",
        config=Registries,
        check=_from_registry,
    ),
    Rule(
        name="no-opaque-releases",
        demand="No Helm release hides its objects from the engine.",
        severity="medium",
        config=RuleConfig,
        check=_opaque,
    ),
)
