"""The images of the gateway: its controller's, and that of its proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import ENVOY_IMAGE
from tools.images import registry
from tools.images.base_image import ensure_debian_layer
from tools.images.binary_layers import binary_layer
from tools.images.containerd import NodeImages
from tools.images.oci import RunConfig
from tools.images.platform_images import GATEWAY, ensure_platform_images
from tools.images.store import look_at_layout, open_layout
from tools.toolchain import allowed_sources
from tools.toolchain.envoy import ensure_envoy

if TYPE_CHECKING:
    from pathlib import Path

    from infra.registry import Mirror
    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

_PROGRAM = "/usr/local/bin/envoy"
_USER = "65532:65532"


def ensure_gateway_images(containerd_socket: Path, report: Progress, *, place: Mirror | None = None) -> None:
    """Ensure that both images are in the node: upstream's where a registry answers, else built.

    Args:
        containerd_socket: the node's.
        report: shows each image.
        place: the registry that pods name as the images' own and that they are pulled from; None: upstream's.

    Raises:
        tools.process.CommandError: one could neither be pulled nor built, or containerd refused it.
        tools.toolchain.ToolchainError: Envoy is not available.
    """
    ensure_platform_images(containerd_socket, [GATEWAY], report, place=place)
    pulled = _is_pulled(report, place)
    reference = place.rewrite(ENVOY_IMAGE) if place else ENVOY_IMAGE
    # Before the layout is locked: it takes a while.
    program = None if pulled else ensure_envoy(report)
    with open_layout() as layout:
        manifest = _built(layout, program, report) if program else registry.find(layout, ENVOY_IMAGE)
        assert manifest, f"{ENVOY_IMAGE} was pulled"
        if NodeImages(containerd_socket).load(layout, reference, manifest):
            report.detail(f"image {reference} loaded")


def _is_pulled(report: Progress, place: Mirror | None) -> bool:
    if "vendor" not in allowed_sources():
        return False
    if registry.find(look_at_layout(), ENVOY_IMAGE) is None:
        registry.pull({ENVOY_IMAGE: place.rewrite(ENVOY_IMAGE) if place else ENVOY_IMAGE}, report)
    return registry.find(look_at_layout(), ENVOY_IMAGE) is not None


def _built(layout: Layout, program: Path, report: Progress) -> Descriptor:
    """Put the program on the Debian of the trainer's images, for its C library."""
    layers = [ensure_debian_layer(layout, report), binary_layer(layout, program, path=_PROGRAM, capability=None)]
    manifest = layout.add_image(layers, RunConfig(entrypoint=(_PROGRAM,), user=_USER))
    if layout.references().get(ENVOY_IMAGE) != manifest:
        layout.tag(ENVOY_IMAGE, manifest)
    return manifest
