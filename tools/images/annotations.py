"""Annotations of our images' manifests.

Format: OCI image specification v1.1, annotations.md. Neither config nor layers change, so the image's id stays the
same, as does its tag, which is computed from sources (infra/images.py). The annotations depend only on these: equal
sources on the same base give the same manifest, on any commit and any day. Hence they have neither revision nor time of
creation: an image stays the same over many commits, and `version` names its sources exactly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.images.oci import Descriptor, Layout

_PREFIX = "org.opencontainers.image"
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
        f"{_PREFIX}.title": repository.rpartition("/")[2],
        f"{_PREFIX}.version": version,
        f"{_PREFIX}.licenses": _LICENSE,
        f"{_PREFIX}.base.name": base,
        f"{_PREFIX}.base.digest": base_manifest.digest,
        "dev.athanor.image.requirements": f"sha256:{requirements}",
    }


def annotated(layout: Layout, manifest: Descriptor, annotations: Mapping[str, str]) -> Descriptor:
    """Store an image's manifest again with annotations, in addition to those that it has; return the new manifest."""
    content: dict[str, Any] = json.loads(layout.path(manifest.digest).read_bytes())
    content["annotations"] = {**content.get("annotations", {}), **annotations}
    return layout.add(json.dumps(content, sort_keys=True, separators=(",", ":")).encode(), manifest.media_type)
