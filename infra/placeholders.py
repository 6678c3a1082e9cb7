"""Placeholders in the committed environments, to be replaced before the first update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from infra.settings.images import ImageSettings

PLACEHOLDERS = frozenset(
    {
        "athanor-registry-vpc.cn-beijing.cr.aliyuncs.com/mirror",
        "athanor-registry-vpc.cn-hangzhou.cr.aliyuncs.com/mirror",
        "cri-athanor0dev00000",
        "cri-athanor0prod0000",
    }
)
"""Registries and registry instances in Pulumi.<stack>.yaml as committed."""


def warn_of_placeholders(images: ImageSettings) -> None:
    """Say in the preview which settings still have the values that this repository came with."""
    values = {"images.registry": images.registry, "images.acr_instance_id": images.acr_instance_id}
    kept = [f"athanor:{name} = {value}" for name, value in values.items() if value in PLACEHOLDERS]
    if kept:
        pulumi.log.warn(
            f"Placeholders remain in Pulumi.{pulumi.get_stack()}.yaml: {', '.join(kept)}. No image could be pulled."
            " Fix: replace them with your own registry and instance"
        )
