"""The gateway of a stack as a component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.crds import UNSIGNED, read_crds
from infra.gateway import CERTIFICATES, COMPONENT, NAMESPACE
from infra.gateway.activator import activator_manifests
from infra.gateway.controller import certificate_manifests, certificate_name, controller_manifests
from infra.gateway.proxies import class_manifests, gateway_manifests
from infra.images import mirror, platform_trainer_image
from infra.machine import cache_folder
from infra.manifests import declare_part, resource
from infra.namespaces import default_deny_manifest, namespace_manifest
from infra.versions import ENVOY_GATEWAY, GATEWAY_API

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from infra.manifests import Manifest
    from infra.settings.gateway import GatewaySettings
    from infra.settings.images import ImageSettings
    from infra.settings.stack import Settings

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


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """Arguments of Gateway."""

    settings: GatewaySettings
    workloads: str
    """Namespace of the services."""
    images: ImageSettings
    trainer_image: str
    """The platform's image of training."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies, created before and deleted after: nodes, the workloads' namespace."""


def declare_gateway(
    settings: Settings, depends_on: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    """Declare a stack's gateway, if it has one; return what services that it exposes depend on."""
    if not settings.gateway.enabled:
        return ()
    args = GatewayArgs(
        settings=settings.gateway,
        workloads=settings.namespace,
        images=settings.images,
        trainer_image=platform_trainer_image(settings),
        depends_on=depends_on,
    )
    return Gateway("gateway", args, opts).parts


class Gateway(pulumi.ComponentResource):
    """Envoy Gateway, a Gateway for all services of the stack, and the activator of those that scale to zero.

    The Gateway depends on the controller, so that a destroy removes it while somebody is there to finalize it.
    """

    parts: tuple[pulumi.Resource, ...]
    """CRDs and Gateway."""

    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(COMPONENT, name, None, opts)
        self._args = args
        place = mirror(args.images)
        rewrite = place.rewrite if place else str
        settings = args.settings
        certificate = settings.certificate_secret or certificate_name(settings.domain)
        namespace = [self._child("gateway-namespace", namespace_manifest(NAMESPACE), args.depends_on)]
        namespace.append(self._child("gateway-default-deny", default_deny_manifest(NAMESPACE), namespace))
        crds = [self._child(f"crd-{name}", manifest, ()) for name, manifest in crd_manifests().items()]
        certificates = self._certificates(namespace, certificate)
        controller = self._part(controller_manifests(args.workloads, rewrite), [*certificates, *crds])
        described = class_manifests(settings, args.workloads, rewrite, args.images.pull_secrets)
        classes = self._part(described, controller)
        gateway = self._part(gateway_manifests(settings.domain, args.workloads, certificate), classes)
        self._part(activator_manifests(args.workloads, args.trainer_image), [*namespace, *crds])
        self.parts = (*crds, *gateway)
        self.register_outputs({"domain": settings.domain})

    def _certificates(self, namespace: Sequence[pulumi.Resource], certificate: str) -> list[pulumi.Resource]:
        settings = self._args.settings
        manifests = certificate_manifests(
            settings.domain, self._args.trainer_image, signs_itself=certificate != settings.certificate_secret
        )
        job = manifests.pop(CERTIFICATES)
        before = [*namespace, *self._part(manifests, namespace)]
        # Nothing of a Job's pods can be changed: another image or domain is another Job of the same name.
        options = pulumi.ResourceOptions(parent=self, depends_on=before, delete_before_replace=True)
        return [*before, resource(CERTIFICATES, job, options)]

    def _part(self, manifests: Mapping[str, Manifest], before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Declare the objects of a part, all after `before`, and its pods after the others; return all of them.

        But Services, which wait for the pods.
        """
        used, pods = declare_part(manifests, self._child, before)
        return [*used, *pods]

    def _child(self, name: str, manifest: Manifest, depends_on: Sequence[pulumi.Resource]) -> pulumi.Resource:
        return resource(name, manifest, pulumi.ResourceOptions(parent=self, depends_on=list(depends_on)))
