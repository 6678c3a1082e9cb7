"""Which container images the platform uses, by name and tag. The one home of every image reference."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from infra.versions import VOLCANO

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


def trainer_image(override: str | None, variant: TrainerVariant) -> str:
    """Return the trainer image's reference: the given one, else the one that `make up` builds from these sources."""
    return override or f"localhost/athanor/trainer:{trainer_content_tag(REPOSITORY, variant)}"
