"""The CRDs of the Gateway API and of Envoy Gateway that the platform declares objects of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.crds import UNSIGNED, read_crds
from infra.machine import cache_folder
from infra.versions import ENVOY_GATEWAY, GATEWAY_API

if TYPE_CHECKING:
    from pathlib import Path

    from infra.manifests import Manifest

# Envoy Gateway looks for each kind that it knows once, when it starts, and does without those that are missing.
GATEWAY_API_CRDS = (
    "gateway.networking.k8s.io_gatewayclasses",
    "gateway.networking.k8s.io_gateways",
    "gateway.networking.k8s.io_grpcroutes",
    "gateway.networking.k8s.io_httproutes",
    "gateway.networking.k8s.io_referencegrants",
)
ENVOY_GATEWAY_CRDS = (
    "gateway.envoyproxy.io_backendtrafficpolicies",
    "gateway.envoyproxy.io_clienttrafficpolicies",
    "gateway.envoyproxy.io_envoyproxies",
    "gateway.envoyproxy.io_securitypolicies",
)
_UNSIGNED = (
    "consecutive5XxErrors",
    "consecutiveGatewayErrors",
    "consecutiveLocalOriginFailures",
    "maxAcceptPerSocketEvent",
    "maxRequestsPerConnection",
    "minEndpointsInZoneThreshold",
    "minEndpointsThreshold",
    "minRetryConcurrency",
    "numTrustedHops",
    "number",
    "probes",
    "weight",
)
"""Unsigned in Envoy Gateway's api/v1alpha1, without a minimum in its schemas."""


def gateway_api_folder() -> Path:
    """Return where `make tools` puts the CRDs of the Gateway API, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"gateway-api-{GATEWAY_API}"


def envoy_gateway_folder() -> Path:
    """Return where `make tools` puts those of Envoy Gateway, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"envoy-gateway-{ENVOY_GATEWAY}"


def crd_manifests() -> dict[str, Manifest]:
    """Return the CRDs by file name.

    Raises:
        RefusalError: they are not there.
    """
    return {
        **read_crds(gateway_api_folder(), GATEWAY_API_CRDS, "the Gateway API"),
        **read_crds(envoy_gateway_folder(), ENVOY_GATEWAY_CRDS, "Envoy Gateway", dict.fromkeys(_UNSIGNED, UNSIGNED)),
    }
