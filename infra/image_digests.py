"""SHA-256 of upstream's images, by reference: a registry could serve other content under the same tag at any time.

They were not read from a registry, because none could be reached: each is pinned alike by at least two independent
public repositories, most by many, as of 22 November 2026. For the platform's other images there were no two such
repositories. `skopeo inspect --format '{{.Digest}}' docker://<reference>` prints an image's digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.registry import ImageReference

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGESTS: Mapping[str, str] = {
    "registry.k8s.io/pause:3.10": "sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a",
    "registry.k8s.io/coredns/coredns:v1.14.1": (
        "sha256:82b57287b29beb757c740dbbe68f2d4723da94715b563fffad5c13438b71b14a"
    ),
    "quay.io/prometheus-operator/prometheus-operator:v0.93.1": (
        "sha256:e52bb28fd41c98dd407c7a8cba8bdcfe7eabd7447e250afaf1fe7bb816dedbff"
    ),
    "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1": (
        "sha256:428f088fe6fe07ab138bda92113664b04848a1dc408e4d3680a60ecdb55d1a65"
    ),
    "quay.io/prometheus/prometheus:v3.14.0": "sha256:5ce7540c3c00ef4ab0c9d2c995c6a5b9c421f44b4a115d97a2c7af3b1c21cbb0",
    "quay.io/prometheus/node-exporter:v1.12.1": (
        "sha256:1b4e4438faca4dd7e001dd445d161a4a2091b0fededa84093b3a8dfeae1f1be0"
    ),
    "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.18.0": (
        "sha256:1545919b72e3ae035454fc054131e8d0f14b42ef6fc5b2ad5c751cafa6b2130e"
    ),
    "docker.io/grafana/grafana:12.4.10": "sha256:c132a683b2430fff9115a29b2a79c8ab97540cdcc90846e3c81878c778ca3596",
    "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless": (
        "sha256:60d3b00ac80b4ae77f94dae2f943685605585ad9e92fdccda3154d009ae317cc"
    ),
}
"""`sha256:<hex>` of the image index of all architectures, by the reference that the platform uses."""


def by_digest(source: str, digest: str | None) -> str:
    """Return the reference to pull from `source` (`host/path:tag`): by its digest if one is known, else by its tag.

    Pullers take a tag or a digest, not both.
    """
    if digest is None:
        return source
    image = ImageReference.parse(source)
    return f"{image.host}/{image.path}@{digest}"
