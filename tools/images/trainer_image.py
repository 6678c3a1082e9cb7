"""The trainer images, one per framework: built once per content, loaded once per node."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from infra.images import (
    TRAINER_REPOSITORIES,
    TrainerFramework,
    TrainerVariant,
    tensorflow_image,
    trainer_image,
    trainer_sources,
)
from tools.images.base_image import BASE_REPOSITORIES, DEBIAN_REPOSITORY, ensure_base_image
from tools.images.builders import BuildRequest, choose_builder
from tools.images.containerd import NodeImages
from tools.images.store import images_folder, open_layout
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

KEPT_IMAGES = 3
"""How many images and bases of each framework, and Debians, stay in the cache: to go back and forth."""


def ensure_trainer_image(
    containerd_socket: Path,
    report: Progress,
    *,
    framework: TrainerFramework = "pytorch",
    variant: TrainerVariant = "cpu",
) -> str:
    """Have an image of the present sources in the node, building it if need be; return its reference.

    Raises:
        tools.process.CommandError: a build step failed, or containerd refused the image.
        tools.images.errors.ImageError: this machine lacks a program that the build needs.
    """
    named = {"pytorch": trainer_image, "tensorflow": tensorflow_image}
    reference = named[framework](None, variant)
    node = NodeImages(containerd_socket)
    if reference in node.manifests():
        return reference
    with open_layout() as layout:
        manifest = layout.find(reference) or build(layout, reference, framework, variant, report)
        report.detail(f"image {reference} into the node")
        node.load(layout, reference, manifest)
    return reference


def build(
    layout: Layout, reference: str, framework: TrainerFramework, variant: TrainerVariant, report: Progress
) -> Descriptor:
    """Build the image of `reference` into `layout`; forget images of older contents."""
    base, base_manifest = ensure_base_image(layout, framework, variant, report)
    report.detail(f"{framework} image: trainer/Dockerfile")
    with tempfile.TemporaryDirectory(dir=layout.folder, prefix="incoming-") as folder:
        # Exactly the files that the tag is computed from: nothing else can get into the image.
        context = Path(folder)
        for name, file in trainer_sources(REPOSITORY, framework).items():
            target = context / "trainer" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        request = BuildRequest(
            context=context,
            dockerfile=context / "trainer" / "Dockerfile",
            base=base,
            base_manifest=base_manifest,
            arguments={"FRAMEWORK": framework, "VARIANT": variant},
        )
        manifest = choose_builder(images_folder() / _storage(framework)).build(request, layout)
    layout.tag(reference, manifest)
    for repository in (TRAINER_REPOSITORIES[framework], BASE_REPOSITORIES[framework], DEBIAN_REPOSITORY):
        names = [name for name in layout.references() if name.rpartition(":")[0] == repository]
        layout.untag(names[:-KEPT_IMAGES])
    layout.collect_garbage()
    return manifest


def _storage(framework: TrainerFramework) -> str:
    """Return the builder's folder. One keeps the steps of the last image only, so that each framework has its own."""
    return "buildah" if framework == "pytorch" else f"buildah-{framework}"
