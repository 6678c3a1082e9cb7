"""The trainer image: built once per content, loaded once per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import TrainerVariant, trainer_image
from tools.images.base_image import BASE_REPOSITORY, DEBIAN_REPOSITORY, ensure_base_image
from tools.images.builders import BuildRequest, choose_builder
from tools.images.containerd import NodeImages
from tools.images.store import images_folder, open_layout
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

KEPT_IMAGES = 3
"""How many trainer images, bases and Debians stay in the cache: to go back and forth between branches."""


def ensure_trainer_image(containerd_socket: Path, report: Progress, *, variant: TrainerVariant = "cpu") -> str:
    """Have the trainer image of the present sources in the node, building it if need be; return its reference.

    Raises:
        tools.process.CommandError: a build step failed, or containerd refused the image.
        tools.images.errors.ImageError: this machine lacks a program that the build needs.
    """
    reference = trainer_image(None, variant)
    node = NodeImages(containerd_socket)
    if reference in node.manifests():
        return reference
    with open_layout() as layout:
        manifest = layout.find(reference) or build(layout, reference, variant, report)
        report.detail(f"image {reference} into the node")
        node.load(layout, reference, manifest)
    return reference


def build(layout: Layout, reference: str, variant: TrainerVariant, report: Progress) -> Descriptor:
    """Build the image of `reference` into `layout`; forget images of older contents."""
    base, base_manifest = ensure_base_image(layout, variant, report)
    report.detail("trainer image: trainer/Dockerfile")
    request = BuildRequest(
        context=REPOSITORY,
        dockerfile=REPOSITORY / "trainer" / "Dockerfile",
        base=base,
        base_manifest=base_manifest,
        arguments={"VARIANT": variant},
    )
    manifest = choose_builder(images_folder() / "buildah").build(request, layout)
    layout.tag(reference, manifest)
    for repository in (reference.rpartition(":")[0], BASE_REPOSITORY, DEBIAN_REPOSITORY):
        names = [name for name in layout.references() if name.rpartition(":")[0] == repository]
        layout.untag(names[:-KEPT_IMAGES])
    layout.collect_garbage()
    return manifest
