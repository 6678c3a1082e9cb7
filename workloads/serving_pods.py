"""What a service of a model consists of in Kubernetes: pure builders of its manifests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from infra.kubernetes import controllers
from infra.kubernetes.controllers import PodTemplate
from infra.pod_network_modes import pod_labels, port
from infra.workload_labels import (
    HOLD_SECONDS_LABEL,
    IDLE_SECONDS_LABEL,
    KIND_LABEL,
    OWNER_LABEL,
    ROLE_LABEL,
    SERVICE_LABEL,
)
from workloads import routes
from workloads.autoscaling import autoscaler_manifest
from workloads.network_policy import EVERY_POD, PolicyIdentity, service_network_policy_manifest
from workloads.placement import Placement, Spread, gpu_access, placed
from workloads.pods import LOG_ENVIRONMENT, Container, pod_spec
from workloads.rollout import DRAIN_BEFORE_STOP, drain_timeout_seconds, probes, rolling_update
from workloads.service_args import DRAIN_SECONDS
from workloads.shadow import SHADOW_SUFFIX, pods_rule
from workloads.triton import MODELS_PATH, Thin, Triton, repository_links, triton_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from workloads.canary import Track
    from workloads.resolved import ResolvedWorkload
    from workloads.service_args import TorchScriptServiceArgs
    from workloads.triton import Runtime

HTTP_PORT = 8000
GRPC_PORT = 8001
SERVICE_METRICS_PORT = 8002


@dataclass(frozen=True, kw_only=True)
class ServiceObject:
    """One Kubernetes object of a service; the logical name is the service's with `suffix`."""

    suffix: str
    kind: tuple[str, str]
    build: Callable[[ResolvedWorkload], Manifest]


def service_ports(runtime: Runtime) -> dict[str, int]:
    """Return the ports of a service by name."""
    grpc = {"grpc": GRPC_PORT} if isinstance(runtime, Triton) or runtime.grpc else {}
    return {"http": HTTP_PORT, **grpc, "metrics": SERVICE_METRICS_PORT}


def pod_ports(args: TorchScriptServiceArgs) -> dict[str, int]:
    """Return the ports of a service's pods by name."""
    return {name: port(args.network, number) for name, number in service_ports(args.runtime).items()}


def serve_command(args: TorchScriptServiceArgs, version: int | None = None) -> list[str]:
    """Return the command of a pod of the thin server."""
    ports = pod_ports(args)
    return [
        "python3",
        "-m",
        "trainer.serve",
        f"--model_repository={MODELS_PATH}",
        *_model_flags(args),
        *([] if version is None else [f"--model_version={version}"]),
        *([] if args.variant is None else [f"--model_variant={args.variant}"]),
        "--host=0.0.0.0",
        f"--http_port={ports['http']}",
        *([f"--grpc_port={ports['grpc']}"] if "grpc" in ports else []),
        f"--metrics_port={ports['metrics']}",
        f"--drain_delay_seconds={DRAIN_SECONDS}",
        # The server's own default is longer than a short grace period: requests under way would be cut off.
        f"--drain_timeout_seconds={drain_timeout_seconds(args)}",
        *(args.runtime.arguments if isinstance(args.runtime, Thin) else ()),
        *(args.tracing.arguments if args.tracing else ()),
    ]


def _model_flags(args: TorchScriptServiceArgs) -> list[str]:
    if args.model is not None:
        return [f"--model_name={args.model}"]
    options = [each.options for each in args.models if each.options]
    return ["--model_name", *args.model_names, *(["--model_options", *options] if options else [])]


def placement(name: str, args: TorchScriptServiceArgs) -> Placement:
    """Return what all pods of a service together ask of the nodes."""
    return Placement(
        pods=args.most_pods,
        own_labels=_labels(name),
        resources=args.resources,
        network=args.network,
        pool=args.pool,
        rdma=None,
        spread=args.spread or (Spread() if args.most_pods > 1 else None),
        spread_labels=_labels(name),
    )


def deployment_manifest(name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedWorkload) -> Manifest:
    """Return the Deployment of a track: alive while it waits for its model, ready when the model is loaded."""
    # The stable track's pods match this alone, with a canary and without, since a selector cannot be changed. It
    # matches the canary's, too; a Deployment leaves pods alone that another one controls.
    selector = {**_labels(name), **(track.labels if track.label == "canary" else {})}
    pods = PodTemplate(
        selector=selector,
        labels={
            **_labels(name),
            **track.labels,
            "app.kubernetes.io/component": "inference",
            KIND_LABEL: "service",
            ROLE_LABEL: "server",
            **pod_labels(args.network),
        },
        spec=placed(_pod_spec(name, args, track, resolved), placement(name, args), resolved.platform.offers),
    )
    more: Manifest = {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update(args.network)},
        # A rollout waits as long as the model takes to appear.
        "progressDeadlineSeconds": 2**31 - 1,
    }
    if track.replicas is not None:  # else every update would undo what the autoscaler did
        more["replicas"] = track.replicas
    labels = {**track.labels, **_zero_labels(args)}
    return controllers.deployment_manifest(_metadata(name, resolved, track.suffix, labels), pods, more)


def _zero_labels(args: TorchScriptServiceArgs) -> dict[str, str]:
    """Return what the activator finds a Deployment by."""
    if args.autoscaling is None or not args.autoscaling.scales_to_zero:
        return {}
    return {IDLE_SECONDS_LABEL: str(args.autoscaling.idle), HOLD_SECONDS_LABEL: str(args.autoscaling.hold)}


def service_manifest(
    name: str, resolved: ResolvedWorkload, ports: dict[str, int], track: Track | None = None
) -> Manifest:
    """Return the Service in front of the ready pods, or of those of one track."""
    labels = track.labels if track else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, resolved, f"-{track.label}" if track else "", labels),
        "spec": {
            "selector": {**_labels(name), **labels},
            "ports": [_service_port(key, number) for key, number in ports.items()],
        },
    }


def _service_port(name: str, number: int) -> Manifest:
    port = {"name": name, "port": number, "targetPort": name}
    return {**port, "appProtocol": routes.H2C} if name == "grpc" else port


def disruption_budget_manifest(name: str, resolved: ResolvedWorkload) -> Manifest:
    """Return a budget that keeps all but one pod during a node drain.

    Pods that are not ready may always go: else those that wait for their model would keep a node from being drained.
    """
    budget = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, resolved),
        "spec": {**budget, "selector": {"matchLabels": _labels(name)}},
    }


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
                build=lambda known: autoscaler_manifest(_metadata(name, known), name, autoscaling),
            )
        )
    if shadow := args.shadow_args:
        # no budget: a shadow that is away fails no request
        objects += [
            replace(each, suffix=SHADOW_SUFFIX + each.suffix)
            for each in _objects(name + SHADOW_SUFFIX, shadow, {"podSelector": {"matchLabels": _labels(name)}})
        ]
    return objects


def _exposed(name: str, args: TorchScriptServiceArgs, ports: dict[str, int]) -> list[ServiceObject]:
    """Return what the service has at the gateway."""
    expose, autoscaling = args.expose, args.autoscaling
    if expose is None:
        return []
    shares = routes.backends(name, args.tracks, args.canary.percent if args.canary else None)

    def route(known: ResolvedWorkload) -> Manifest:
        host = expose.full_host(name, expose.check_offered(known.platform.offers))
        return routes.route_manifest(_metadata(name, known), shares, expose, host, ports)

    def security(known: ResolvedWorkload) -> Manifest:
        return routes.security_manifest(_metadata(name, known), name, expose.auth, autoscaling)

    def traffic(known: ResolvedWorkload) -> Manifest:
        return routes.traffic_manifest(_metadata(name, known), expose, autoscaling)

    objects = [
        ServiceObject(suffix="", kind=routes.ROUTE_KIND, build=route),
        ServiceObject(suffix="", kind=routes.TRAFFIC_KIND, build=traffic),
    ]
    if expose.auth or (autoscaling and autoscaling.scales_to_zero):
        objects.append(ServiceObject(suffix="", kind=routes.SECURITY_KIND, build=security))
    return objects


def _objects(name: str, args: TorchScriptServiceArgs, caller: Manifest = EVERY_POD) -> list[ServiceObject]:
    """Return what serves one set of pods, and who may call them."""
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
                _labels(name),
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
    return collector + ([pods_rule(_labels(name + SHADOW_SUFFIX), pod_ports(shadow)["http"])] if shadow else [])


def service_url(host: str, resolved: ResolvedWorkload) -> str:
    """Return the address of a Service inside the cluster."""
    return f"http://{host}.{resolved.platform.namespace}.svc:{HTTP_PORT}"


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


def _pod_spec(name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedWorkload) -> Manifest:
    triton = args.runtime if isinstance(args.runtime, Triton) else None
    ports = pod_ports(args)
    threads = {"OMP_NUM_THREADS": str(args.resources.whole_cpus)}
    container = Container(
        name="server",
        image=resolved.image,
        command=(
            triton_command(triton, ports, drain_timeout_seconds(args))
            if triton
            else [*serve_command(args, track.version), *_shadow_arguments(name, args, track, resolved)]
        ),
        resources=args.resources,
        # CUDA and torch keep caches of kernels below HOME; the root file system is read-only.
        env={**threads, "HOME": "/tmp"} if triton else {**threads, **_thin_environment(name)},  # noqa: S108
        ports=ports,
        writes_output=False,
        extra={**probes(args, track), **(DRAIN_BEFORE_STOP if triton else {})},
    )
    links = [repository_links(resolved.image, each, track.version) for each in args.model_names] if triton else []
    return pod_spec(
        container,
        resolved.claims,
        init_containers=links,
        grace_period_seconds=args.grace_period_seconds,
        gpus=gpu_access(placement(name, args), resolved.platform.offers),
    )


def _shadow_arguments(
    name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedWorkload
) -> tuple[str, ...]:
    """Return how the server reaches the shadow; a canary is compared with nothing."""
    if args.shadow is None or track.label == "canary":
        return ()
    return args.shadow.arguments(service_url(name + SHADOW_SUFFIX, resolved), args.model_names[0])


def _thin_environment(name: str) -> dict[str, str]:
    return {"ATHANOR_JOB": name, **LOG_ENVIRONMENT, "PYTHONUNBUFFERED": "1"}


def _labels(name: str) -> dict[str, str]:
    return {SERVICE_LABEL: name}


def _metadata(
    name: str, resolved: ResolvedWorkload, suffix: str = "", labels: dict[str, str] | None = None
) -> Manifest:
    """Return metadata that keeps `up` from waiting for readiness: the first model may be days of training away."""
    return {
        "name": name + suffix,
        "namespace": resolved.platform.namespace,
        "labels": {**_labels(name), OWNER_LABEL: resolved.owner, **(labels or {})},
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
