"""Which container images the platform uses, by name and tag. The one home of every image reference."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from infra.errors import RefusalError
from infra.registry import Mirror
from infra.versions import DCGM_EXPORTER, NVIDIA_DEVICE_PLUGIN, VOLCANO

if TYPE_CHECKING:
    from infra.settings.images import ImageSettings
    from infra.settings.stack import Settings

TrainerVariant = Literal["cpu", "gpu"]

REPOSITORY = Path(__file__).resolve().parent.parent
_NOT_SHIPPED = ("__pycache__", ".pyc", ".md")


def trainer_content_tag(repository: Path, variant: TrainerVariant) -> str:
    """Return the trainer image's tag: 16 hex digits of SHA-256 over `variant` and all that the image is built from.

    The same sources give the same tag on every machine: names and contents count, times and compiled files do not.
    """
    digest = hashlib.sha256(f"variant={variant}\n".encode())
    sources = repository / "trainer"
    for file in sorted(sources.rglob("*"), key=lambda path: path.relative_to(sources).as_posix()):
        name = file.relative_to(sources).as_posix()
        if not file.is_file() or any(mark in name for mark in _NOT_SHIPPED):
            continue
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


VOLCANO_SCHEDULER_IMAGE = f"docker.io/volcanosh/vc-scheduler:v{VOLCANO}"
VOLCANO_CONTROLLERS_IMAGE = f"docker.io/volcanosh/vc-controller-manager:v{VOLCANO}"
DEVICE_PLUGIN_IMAGE = f"nvcr.io/nvidia/k8s-device-plugin:v{NVIDIA_DEVICE_PLUGIN}"
DCGM_EXPORTER_IMAGE = f"nvcr.io/nvidia/k8s/dcgm-exporter:{DCGM_EXPORTER}-distroless"
PLATFORM_IMAGES = (VOLCANO_SCHEDULER_IMAGE, VOLCANO_CONTROLLERS_IMAGE, DEVICE_PLUGIN_IMAGE, DCGM_EXPORTER_IMAGE)
"""Every image of the platform's own parts: what a mirror must hold beside the trainer's."""


def trainer_image(override: str | None, variant: TrainerVariant) -> str:
    """Return the trainer image's reference: the given one, else the one that `make up` builds from these sources."""
    return override or f"localhost/athanor/trainer:{trainer_content_tag(REPOSITORY, variant)}"


def mirror(settings: ImageSettings) -> Mirror | None:
    """Return where the settings have all images pulled from; None: each from its own registry."""
    return Mirror(registry=settings.registry, flatten=settings.flatten) if settings.registry else None


def platform_trainer_image(settings: Settings) -> str:
    """Return the trainer image as the stack's nodes pull it.

    Raises:
        RefusalError: nodes on Alibaba Cloud could pull it from nowhere.
    """
    images = settings.images
    place = mirror(images)
    if settings.alicloud and not images.trainer and not place:
        raise RefusalError(
            "athanor:images.trainer",
            None,
            "nodes on Alibaba Cloud cannot pull the image that this machine built",
            "push it and name it here, or name the registry that it was pushed to under images.registry",
        )
    reference = trainer_image(images.trainer, images.trainer_variant)
    return place.rewrite(reference) if place else reference


def needed_images(settings: ImageSettings) -> dict[str, str]:
    """Return every image that a stack needs: where its nodes pull it from, by where it comes from.

    Copy each key to its value to fill a mirror; `make up` builds what is on localhost.
    """
    place = mirror(settings)
    sources = (*PLATFORM_IMAGES, trainer_image(settings.trainer, settings.trainer_variant))
    return {source: place.rewrite(source) if place else source for source in sources}
