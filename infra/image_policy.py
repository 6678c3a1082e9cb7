"""Applies the registry setting to everything that the program deploys, no matter which code builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import pulumi
from pulumi.runtime import register_stack_transformation

from infra.errors import RefusalError
from infra.images import mirror
from infra.registry import CONTAINERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.settings.images import ImageSettings

# They render their pods in the engine or in Helm, where no image could be seen, let alone rewritten. (`helm.v3.Chart`
# and `yaml.ConfigFile` render in this program.)
_OPAQUE = ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:", "kubernetes:yaml/v2:", "kubernetes:kustomize/v2:")
_DEFINITION = "CustomResourceDefinition"
_Object = dict[str, Any]
_T = TypeVar("_T")
_R = TypeVar("_R")


def enforce_image_policy(settings: ImageSettings) -> None:
    """Rewrite the images and add the pull secrets of every Kubernetes object that is declared from now on.

    A transformation of the whole stack, so that no builder has to think of it and none can forget it. To be called
    once, before anything is declared.
    """
    place = mirror(settings)
    if place is None and not settings.pull_secrets:
        return

    def transformed(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("kubernetes:") or args.type_.endswith(_DEFINITION):
            return None
        if args.type_.startswith(_OPAQUE):
            raise RefusalError(
                args.name,
                args.type_,
                "renders its pods where images.registry and images.pull_secrets have no effect",
                "declare the chart's objects as manifests, through infra.manifests.resource",
            )
        rewrite = place.rewrite if place else str
        props = {key: with_image_policy(value, rewrite, settings.pull_secrets) for key, value in args.props.items()}
        return pulumi.ResourceTransformationResult(props, args.opts)

    register_stack_transformation(transformed)


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
    for key in CONTAINERS:
        if key in pod:
            changed[key] = _lifted(pod[key], lambda items: [_with_image(item, "image", rewrite) for item in items])
    if "volumes" in pod:
        changed["volumes"] = _lifted(pod["volumes"], lambda items: [_volume(item, rewrite) for item in items])
    if pull_secrets:
        references = [{"name": name} for name in pull_secrets]
        own: list[_Object] = pod.get("imagePullSecrets") or []
        changed["imagePullSecrets"] = _lifted(
            own, lambda items: items + [new for new in references if new not in items]
        )
    return changed


def _volume(volume: _Object, rewrite: Callable[[str], str]) -> _Object:
    return {**volume, "image": _with_image(volume["image"], "reference", rewrite)} if "image" in volume else volume


def _with_image(holder: _Object, key: str, rewrite: Callable[[str], str]) -> _Object:
    return {**holder, key: _lifted(holder[key], rewrite)} if key in holder else holder


def _lifted(value: _T | pulumi.Output[_T], change: Callable[[_T], _R]) -> _R | pulumi.Output[_R]:
    return cast("pulumi.Output[_T]", value).apply(change) if isinstance(value, pulumi.Output) else change(value)
