"""The platform's own images: upstream's where its registry answers, else static binaries of the toolchain.

Such a binary is alone in an image with its upstream's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.images import (
    ALERTMANAGER_IMAGE,
    CONFIG_RELOADER_IMAGE,
    COREDNS_IMAGE,
    ENVOY_GATEWAY_IMAGE,
    KUBE_STATE_METRICS_IMAGE,
    METRICS_ADAPTER_IMAGE,
    NODE_EXPORTER_IMAGE,
    PAUSE_IMAGE,
    PROMETHEUS_IMAGE,
    PROMETHEUS_OPERATOR_IMAGE,
    VICTORIA_LOGS_IMAGE,
    VLAGENT_IMAGE,
    VOLCANO_CONTROLLERS_IMAGE,
    VOLCANO_SCHEDULER_IMAGE,
)
from tools.images import registry
from tools.images.binary_layers import binary_layer
from tools.images.containerd import NodeImages
from tools.images.errors import ImageError
from tools.images.layers import CAP_NET_BIND_SERVICE
from tools.images.oci import Layout, RunConfig
from tools.images.store import look_at_layout, open_layout
from tools.toolchain import allowed_sources, ensure, is_present

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from infra.registry import Mirror
    from tools.images.oci import Descriptor
    from tools.progress import Progress


@dataclass(frozen=True, kw_only=True)
class PlatformImage:
    """One binary's image, so like its upstream's that a manifest written for that one runs."""

    reference: str
    user: str = ""
    capability: int | None = None
    path: str = ""
    """Path of the binary in the image, if not under its own name in the root."""
    arguments: tuple[str, ...] = ()
    """Arguments of the entry point after the binary."""


_NOBODY = "65534:65534"
ADAPTER = "adapter"
"""The adapter from which autoscalers read metrics, where a stack asks for it."""
GATEWAY = "envoy-gateway"
"""The controller of the gateway, where a stack asks for one."""
_MONITORING = {
    "prometheus-operator": PlatformImage(reference=PROMETHEUS_OPERATOR_IMAGE, user=_NOBODY, path="/bin/operator"),
    "prometheus-config-reloader": PlatformImage(
        reference=CONFIG_RELOADER_IMAGE, user=_NOBODY, path="/bin/prometheus-config-reloader"
    ),
    "prometheus": PlatformImage(reference=PROMETHEUS_IMAGE, user=_NOBODY, path="/bin/prometheus"),
    "alertmanager": PlatformImage(reference=ALERTMANAGER_IMAGE, user=_NOBODY, path="/bin/alertmanager"),
    "node_exporter": PlatformImage(reference=NODE_EXPORTER_IMAGE, user=_NOBODY, path="/bin/node_exporter"),
    "kube-state-metrics": PlatformImage(
        reference=KUBE_STATE_METRICS_IMAGE, user=_NOBODY, arguments=("--port=8080", "--telemetry-port=8081")
    ),
    "victoria-logs-prod": PlatformImage(reference=VICTORIA_LOGS_IMAGE),
    "vlagent-prod": PlatformImage(reference=VLAGENT_IMAGE),
}

PLATFORM_IMAGES = {
    "pause": PlatformImage(reference=PAUSE_IMAGE, user="65535:65535"),
    # Not root, yet on port 53: upstream gives the binary this file capability, and pods add it to their bounding set.
    "coredns": PlatformImage(reference=COREDNS_IMAGE, user="65532:65532", capability=CAP_NET_BIND_SERVICE),
    "vc-scheduler": PlatformImage(reference=VOLCANO_SCHEDULER_IMAGE),
    "vc-controller-manager": PlatformImage(reference=VOLCANO_CONTROLLERS_IMAGE),
    **_MONITORING,
    ADAPTER: PlatformImage(reference=METRICS_ADAPTER_IMAGE, user=_NOBODY),
    # Pods of its proxies call it by name.
    GATEWAY: PlatformImage(reference=ENVOY_GATEWAY_IMAGE, user="65532:65532", path="/usr/local/bin/envoy-gateway"),
}
"""Images by the name of the binary, as tools.toolchain knows it."""
MONITORING_IMAGES = tuple(_MONITORING)
"""Images of the monitoring: keys of PLATFORM_IMAGES."""


def pulled_images(names: Iterable[str]) -> set[str]:
    """Return those of `names` (keys of PLATFORM_IMAGES) whose upstream's image is in the cache and may be used."""
    if "vendor" not in allowed_sources():
        return set()
    layout = look_at_layout()
    return {name for name in names if registry.find(layout, PLATFORM_IMAGES[name].reference)}


def fetch_platform_images(names: Iterable[str], report: Progress, *, place: Mirror | None = None) -> set[str]:
    """Pull upstream's images into the cache where a registry answers; return the names of those that are there.

    A program that is here already is not asked for: its image is built at once.

    Args:
        names: keys of PLATFORM_IMAGES.
        report: shows each image.
        place: the registry that all images are pulled from; None: each from its own.
    """
    requested = set(names)
    if "vendor" not in allowed_sources():
        return set()
    pulled = pulled_images(requested)
    if missing := [name for name in sorted(requested - pulled) if not is_present(name)]:
        references = [PLATFORM_IMAGES[name].reference for name in missing]
        registry.pull({one: place.rewrite(one) if place else one for one in references}, report)
        pulled |= pulled_images(missing)
    return pulled


def ensure_platform_images(
    containerd_socket: Path, names: Iterable[str], report: Progress, *, place: Mirror | None = None
) -> dict[str, str]:
    """Ensure that the images of `names` (keys of PLATFORM_IMAGES) are in the node; return their references by name.

    Args:
        containerd_socket: the node's.
        names: keys of PLATFORM_IMAGES.
        report: shows each image.
        place: the registry that pods name as the images' own and that they are pulled from; None: upstream's.

    Raises:
        KeyError: a name that is not in PLATFORM_IMAGES.
        tools.process.CommandError: a binary could not be built, or containerd refused an image.
    """
    images = {name: PLATFORM_IMAGES[name] for name in names}
    pulled = fetch_platform_images(images, report, place=place)
    binaries = ensure(images.keys() - pulled, report)
    references = {name: place.rewrite(one.reference) if place else one.reference for name, one in images.items()}
    node = NodeImages(containerd_socket)
    with open_layout() as layout:
        for name, image in images.items():
            built = binaries.get(name)
            manifest = binary_image(layout, built, name, image) if built else _pulled_image(layout, image.reference)
            if node.load(layout, references[name], manifest):
                report.detail(f"image {references[name]} loaded")
            _forget_other_versions(layout, image.reference)
    return references


def _pulled_image(layout: Layout, reference: str) -> Descriptor:
    manifest = registry.find(layout, reference)
    if manifest is None:
        raise ImageError(f"another process removed image {reference} from the cache. Fix: run this again")
    return manifest


def _forget_other_versions(layout: Layout, reference: str) -> None:
    """Untag what has the image's repository and another tag, whether it was built or pulled by digest."""
    repository = reference.rpartition(":")[0]
    tags = {name: name.partition("@")[0] for name in layout.references()}
    others = [name for name, tag in tags.items() if tag != reference and tag.rpartition(":")[0] == repository]
    if others:
        layout.untag(others)
        layout.collect_garbage()


def binary_image(layout: Layout, binary: Path, name: str, image: PlatformImage) -> Descriptor:
    """Put an image of the static `binary` called `name` into `layout` and return its manifest."""
    path = image.path or f"/{name}"
    layer = binary_layer(layout, binary, path=path, capability=image.capability)
    manifest = layout.add_image([layer], RunConfig(entrypoint=(path, *image.arguments), user=image.user))
    if layout.references().get(image.reference) != manifest:
        layout.tag(image.reference, manifest)
    return manifest
