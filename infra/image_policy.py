"""Apply the registry setting to everything the program deploys, whoever builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
from pulumi.runtime import register_stack_transformation

from infra.errors import RefusalError
from infra.images import mirror
from infra.registry import with_image_policy

if TYPE_CHECKING:
    from infra.settings.images import ImageSettings

# They render their pods in the engine or in Helm, where no image could be seen, let alone rewritten. (`helm.v3.Chart`
# and `yaml.ConfigFile` render in this program.)
_OPAQUE = ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:", "kubernetes:yaml/v2:", "kubernetes:kustomize/v2:")
_DEFINITION = "CustomResourceDefinition"


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
                "renders its pods where images.registry and images.pull_secrets cannot reach them",
                "declare the chart's objects as manifests, through infra.manifests.resource",
            )
        rewrite = place.rewrite if place else str
        props = {key: with_image_policy(value, rewrite, settings.pull_secrets) for key, value in args.props.items()}
        return pulumi.ResourceTransformationResult(props, args.opts)

    register_stack_transformation(transformed)
