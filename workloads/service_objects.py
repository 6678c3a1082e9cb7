"""The set of Kubernetes objects of a model's service, according to its arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workloads import routes
from workloads.autoscaling import autoscaler_manifest
from workloads.network_policy import EVERY_POD, PolicyIdentity, service_network_policy_manifest
from workloads.serving_pods import (
    deployment_manifest,
    disruption_budget_manifest,
    pod_ports,
    service_labels,
    service_manifest,
    service_metadata,
    service_ports,
)
from workloads.shadow import SHADOW_SUFFIX, pods_rule
from workloads.triton import Triton

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from workloads.canary import Track
    from workloads.resolved import ResolvedWorkload
    from workloads.service_args import TorchScriptServiceArgs


@dataclass(frozen=True, kw_only=True)
class ServiceObject:
    """One Kubernetes object of a service; the logical name is the service's with `suffix`."""

    suffix: str
    kind: tuple[str, str]
    build: Callable[[ResolvedWorkload], Manifest]
    names_others: bool = False
    """Whether it comes when all others are there: the gateway answers 500 for a route to a Service that is not."""


def service_objects(name: str, args: TorchScriptServiceArgs) -> list[ServiceObject]:
    """Return all objects of a service; which ones there are depends on the arguments alone."""
    objects = _objects(name, args)
    if args.most_pods > 1:
        objects.append(
            ServiceObject(
                suffix="",
                kind=("policy/v1", "PodDisruptionBudget"),
                build=lambda known: disruption_budget_manifest(name, known),
            )
        )
    objects += _exposed(name, args, service_ports(args.runtime))
    autoscaling = args.autoscaling
    if autoscaling and autoscaling.maximum > 1:
        objects.append(
            ServiceObject(
                suffix="",
                kind=("autoscaling/v2", "HorizontalPodAutoscaler"),
                build=lambda known: autoscaler_manifest(
                    service_metadata(name, known), name, autoscaling.leaving_room_for(args.canary_pods)
                ),
            )
        )
    if shadow := args.shadow_args:
        # no budget: a shadow that is away fails no request
        objects += [
            replace(each, suffix=SHADOW_SUFFIX + each.suffix)
            for each in _objects(name + SHADOW_SUFFIX, shadow, {"podSelector": {"matchLabels": service_labels(name)}})
        ]
    return objects


def _exposed(name: str, args: TorchScriptServiceArgs, ports: dict[str, int]) -> list[ServiceObject]:
    """Return the service's objects at the gateway."""
    expose, autoscaling = args.expose, args.autoscaling
    if expose is None:
        return []
    upstream = routes.Upstream(
        shares=routes.shares(name, args.canary), ports=ports, has_trace_settings=isinstance(args.runtime, Triton)
    )
    sleeps = autoscaling is not None and autoscaling.scales_to_zero

    def route(known: ResolvedWorkload) -> Manifest:
        host = expose.full_host(name, expose.check_offered(known.platform.offers))
        return routes.route_manifest(service_metadata(name, known), upstream, expose, host)

    def security(known: ResolvedWorkload) -> Manifest:
        return routes.security_manifest(service_metadata(name, known), name, expose.auth, args.hold_seconds)

    def traffic(known: ResolvedWorkload) -> Manifest:
        to_services = sleeps or args.canary is not None
        return routes.traffic_manifest(service_metadata(name, known), expose, to_services=to_services)

    objects = [
        ServiceObject(suffix="", kind=routes.ROUTE_KIND, build=route, names_others=True),
        ServiceObject(suffix="", kind=routes.TRAFFIC_KIND, build=traffic),
    ]
    if expose.auth or sleeps:
        objects.append(ServiceObject(suffix="", kind=routes.SECURITY_KIND, build=security))
    return objects


def _objects(name: str, args: TorchScriptServiceArgs, caller: Manifest = EVERY_POD) -> list[ServiceObject]:
    """Return the objects of one set of pods, and those that allow calls to them."""
    ports = service_ports(args.runtime)
    objects = [_deployment(name, args, track) for track in args.tracks]
    objects.append(
        ServiceObject(suffix="", kind=("v1", "Service"), build=lambda known: service_manifest(name, known, ports))
    )
    objects += [_track_service(name, ports, track) for track in args.tracks if track.label]
    objects.append(
        ServiceObject(
            suffix="-network",
            kind=("networking.k8s.io/v1", "NetworkPolicy"),
            build=lambda known: service_network_policy_manifest(
                PolicyIdentity(what="service", name=name, namespace=known.platform.namespace, owner=known.owner),
                service_labels(name),
                pod_ports(args),
                _egress(name, args),
                caller,
            ),
        )
    )
    return objects


def _egress(name: str, args: TorchScriptServiceArgs) -> list[Manifest]:
    """Return the rules of a network policy for what the server calls."""
    collector = [args.tracing.collector] if args.tracing else []
    shadow = args.shadow_args
    return collector + ([pods_rule(service_labels(name + SHADOW_SUFFIX), pod_ports(shadow)["http"])] if shadow else [])


def _deployment(name: str, args: TorchScriptServiceArgs, track: Track) -> ServiceObject:
    return ServiceObject(
        suffix=track.suffix,
        kind=("apps/v1", "Deployment"),
        build=lambda known: deployment_manifest(name, args, track, known),
    )


def _track_service(name: str, ports: dict[str, int], track: Track) -> ServiceObject:
    return ServiceObject(
        suffix=f"-{track.label}",
        kind=("v1", "Service"),
        build=lambda known: service_manifest(name, known, ports, track),
    )
