"""The platform's own images: static binaries of the toolchain, each alone in an image with its upstream's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.images import (
    ALERTMANAGER_IMAGE,
    CONFIG_RELOADER_IMAGE,
    KUBE_STATE_METRICS_IMAGE,
    NODE_EXPORTER_IMAGE,
    PROMETHEUS_IMAGE,
    PROMETHEUS_OPERATOR_IMAGE,
    VICTORIA_LOGS_IMAGE,
    VLAGENT_IMAGE,
    VOLCANO_CONTROLLERS_IMAGE,
    VOLCANO_SCHEDULER_IMAGE,
)
from tools.images.containerd import NodeImages
from tools.images.layers import CAP_NET_BIND_SERVICE, write_binary
from tools.images.oci import LAYER, Layout, RunConfig
from tools.images.store import open_layout
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.images.oci import Descriptor
    from tools.progress import Progress


@dataclass(frozen=True, kw_only=True)
class PlatformImage:
    """One binary's image, so like its upstream's that a manifest written for that one runs."""

    reference: str
    user: str = ""
    capability: int | None = None
    path: str = ""
    """Where the binary lies in the image, if not under its own name in the root."""
    arguments: tuple[str, ...] = ()
    """What the entry point has behind the binary."""


PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
COREDNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.14.5"

_NOBODY = "65534:65534"
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
}
"""By the name of the binary, as tools.toolchain knows it."""
MONITORING_IMAGES = tuple(_MONITORING)
"""What watches the platform: keys of PLATFORM_IMAGES."""


def ensure_platform_images(containerd_socket: Path, names: Iterable[str], report: Progress) -> dict[str, str]:
    """Have the images of `names` (keys of PLATFORM_IMAGES) in the node; return their references by name.

    Raises:
        KeyError: a name that is not in PLATFORM_IMAGES.
        tools.process.CommandError: a binary could not be built, or containerd refused an image.
    """
    wanted = {name: PLATFORM_IMAGES[name] for name in names}
    binaries = ensure(wanted, report)
    node = NodeImages(containerd_socket)
    with open_layout() as layout:
        for name, image in wanted.items():
            manifest = binary_image(layout, binaries[name], name, image)
            if node.load(layout, image.reference, manifest):
                report.detail(f"image {image.reference} loaded")
            _forget_other_versions(layout, image.reference)
    return {name: image.reference for name, image in wanted.items()}


def _forget_other_versions(layout: Layout, reference: str) -> None:
    repository = reference.rpartition(":")[0]
    others = [name for name in layout.references() if name != reference and name.rpartition(":")[0] == repository]
    if others:
        layout.untag(others)
        layout.collect_garbage()


def binary_image(layout: Layout, binary: Path, name: str, image: PlatformImage) -> Descriptor:
    """Put an image of the static `binary` called `name` into `layout` and return its manifest."""
    path = image.path or f"/{name}"
    layer = layout.add_stream(lambda sink: write_binary(sink, binary, path=path, capability=image.capability), LAYER)
    manifest = layout.add_image([layer], RunConfig(entrypoint=(path, *image.arguments), user=image.user))
    layout.tag(image.reference, manifest)
    return manifest
