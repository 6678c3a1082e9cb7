"""The images of trainer/: built once per content, loaded once per node.

Format: OCI image specification v1.1, annotations.md. Neither config nor layers change, so the image's id stays the
same, as does its tag, which is computed from sources (infra/images.py). The annotations depend only on these: equal
sources on the same base give the same manifest, on any commit and any day. Hence they have neither revision nor time of
creation: an image stays the same over many commits, and `version` names its sources exactly.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.images import TRAINER_FRAMEWORKS, TRAINER_REPOSITORIES, local_image, trainer_sources
from tools.images.base_image import (
    BASE_REPOSITORIES,
    DEBIAN_REPOSITORY,
    ensure_base_image,
    ensure_training_base_image,
)
from tools.images.builders import BuildRequest, choose_builder
from tools.images.containerd import NodeImages
from tools.images.python_packages import requirements_file
from tools.images.store import images_folder, open_layout
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.images import TrainerFramework, TrainerImage
    from infra.settings.images import TrainerVariant
    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

_ANNOTATION_PREFIX = "org.opencontainers.image"
_LICENSE = "Apache-2.0"


def provenance(reference: str, base: str, base_manifest: Descriptor, requirements: str) -> dict[str, str]:
    """Return the annotations of an image that is built on another one.

    Args:
        reference: the image's name and tag; the tag is the version of its sources.
        base: name and tag of the base image.
        base_manifest: the base image's manifest.
        requirements: SHA-256 of the file with the pinned packages, in hexadecimal.
    """
    repository, _, version = reference.rpartition(":")
    return {
        f"{_ANNOTATION_PREFIX}.title": repository.rpartition("/")[2],
        f"{_ANNOTATION_PREFIX}.version": version,
        f"{_ANNOTATION_PREFIX}.licenses": _LICENSE,
        f"{_ANNOTATION_PREFIX}.base.name": base,
        f"{_ANNOTATION_PREFIX}.base.digest": base_manifest.digest,
        "dev.athanor.image.requirements": f"sha256:{requirements}",
    }


def annotated(layout: Layout, manifest: Descriptor, annotations: Mapping[str, str]) -> Descriptor:
    """Store an image's manifest again with annotations, in addition to those that it has; return the new manifest."""
    content: dict[str, Any] = json.loads(layout.path(manifest.digest).read_bytes())
    content["annotations"] = {**content.get("annotations", {}), **annotations}
    return layout.add(json.dumps(content, sort_keys=True, separators=(",", ":")).encode(), manifest.media_type)


KEPT_IMAGES = 3
"""Number of images of each name that stay in the cache, the last used ones, to switch between them."""


def ensure_trainer_images(
    containerd_socket: Path, names: Iterable[TrainerImage], report: Progress, *, variant: TrainerVariant = "cpu"
) -> dict[TrainerImage, str]:
    """Ensure that images of the present sources are in the node, building missing ones; return their references.

    Raises:
        tools.process.CommandError: a build step failed, or containerd refused an image.
        tools.images.errors.ImageError: this machine lacks a program that the build needs.
    """
    node = NodeImages(containerd_socket)
    references: dict[TrainerImage, str] = {name: local_image(name, variant) for name in names}
    present = node.manifests()
    for name, reference in references.items():
        if reference not in present:
            _build_and_load(node, name, reference, variant, report)
    return references


def _build_and_load(
    node: NodeImages, name: TrainerImage, reference: str, variant: TrainerVariant, report: Progress
) -> None:
    with open_layout() as layout:
        manifest = layout.find(reference)
        if manifest:
            layout.tag(reference, manifest)  # now the last used one, which later builds keep
        else:
            manifest = build(layout, reference, name, variant, report)
        report.detail(f"image {reference} into the node")
        node.load(layout, reference, manifest)


def build(layout: Layout, reference: str, name: TrainerImage, variant: TrainerVariant, report: Progress) -> Descriptor:
    """Build the image of `reference` into `layout`; forget those that have not been used for longest."""
    framework = TRAINER_FRAMEWORKS[name]
    ensure_base = ensure_training_base_image if name == "training" else ensure_base_image
    base, base_manifest = ensure_base(layout, framework, variant, report)
    report.detail(f"{name} image: trainer/Dockerfile")
    with tempfile.TemporaryDirectory(dir=layout.folder, prefix="incoming-") as folder:
        # Exactly the files that the tag is computed from: nothing else can get into the image.
        context = Path(folder)
        for file_name, file in trainer_sources(REPOSITORY, name).items():
            target = context / "trainer" / file_name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        request = BuildRequest(
            context=context,
            dockerfile=context / "trainer" / "Dockerfile",
            base=base,
            base_manifest=base_manifest,
            arguments={"FRAMEWORK": framework, "VARIANT": variant},
        )
        built = choose_builder(images_folder() / _storage(framework)).build(request, layout)
    pins = hashlib.sha256(requirements_file(framework).read_bytes()).hexdigest()
    manifest = annotated(layout, built, provenance(reference, base, base_manifest, pins))
    layout.tag(reference, manifest)
    _forget_unused(layout, name)
    layout.collect_garbage()
    return manifest


def _forget_unused(layout: Layout, image: TrainerImage) -> None:
    """Keep the last used images of this name, and every base that an image is on.

    Without its base in the cache, an image's next change would bring a new base of other bytes: large layers to send.
    """
    layout.untag(_names(layout, TRAINER_REPOSITORIES[image])[:-KEPT_IMAGES])
    images = [name for repository in TRAINER_REPOSITORIES.values() for name in _names(layout, repository)]
    used = {digest for name in images for digest in _layers(layout, name)}
    for repository in (BASE_REPOSITORIES[TRAINER_FRAMEWORKS[image]], DEBIAN_REPOSITORY):
        older = _names(layout, repository)[:-KEPT_IMAGES]
        layout.untag([name for name in older if not _layers(layout, name) <= used])


def _names(layout: Layout, repository: str) -> list[str]:
    return [name for name in layout.references() if name.rpartition(":")[0] == repository]


def _layers(layout: Layout, name: str) -> set[str]:
    """Return the digests of an image's layers; of one that is incomplete, a set that no image contains."""
    manifest = layout.find(name)
    if manifest is None:
        return {name}
    _, _, *layers = layout.members(manifest)
    return {layer.digest for layer in layers}


def _storage(framework: TrainerFramework) -> str:
    """Return the builder's folder: it keeps the steps of the last image only, which images on the same base share."""
    return "buildah" if framework == "pytorch" else f"buildah-{framework}"
