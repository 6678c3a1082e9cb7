"""What a service of a model consists of in Kubernetes: pure builders of its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.pod_network import HostNetwork, pod_labels, port
from infra.pools import NO_OFFERS, PlatformOffers
from infra.workload_labels import KIND_LABEL, ROLE_LABEL, SERVICE_LABEL
from workloads.autoscaling import autoscaler_manifest
from workloads.network_policy import service_network_policy_manifest
from workloads.placement import Placement, placed
from workloads.pods import LOG_ENVIRONMENT, Claims, Container, pod_spec
from workloads.triton import MODELS_PATH, Triton, repository_links, triton_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from infra.pod_network import PodNetwork
    from workloads.canary import Track
    from workloads.inference import TorchScriptServiceArgs
    from workloads.triton import Runtime

HTTP_PORT = 8000
GRPC_PORT = 8001
METRICS_PORT = 8002
# Endpoints are removed while the pod already shuts down: it keeps answering this long before it stops.
DRAIN_SECONDS = 5
_SHUTDOWN_MARGIN_SECONDS = 2
# Triton ends without such a delay; the thin server has its own.
_DRAIN_BEFORE_STOP = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(DRAIN_SECONDS)]}}}}


@dataclass(frozen=True, kw_only=True)
class ResolvedService:
    """The platform's part of a service, with every Output known."""

    namespace: str
    image: str
    claims: Claims
    offers: PlatformOffers = NO_OFFERS


@dataclass(frozen=True, kw_only=True)
class ServiceObject:
    """One Kubernetes object of a service; the logical name is the service's with `suffix`."""

    suffix: str
    kind: tuple[str, str]
    build: Callable[[ResolvedService], Manifest]


def service_ports(runtime: Runtime) -> dict[str, int]:
    """Return the ports of a service by name."""
    grpc = {"grpc": GRPC_PORT} if isinstance(runtime, Triton) else {}
    return {"http": HTTP_PORT, **grpc, "metrics": METRICS_PORT}


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
        f"--model_name={args.model}",
        *([] if version is None else [f"--model_version={version}"]),
        "--host=0.0.0.0",
        f"--http_port={ports['http']}",
        f"--metrics_port={ports['metrics']}",
        f"--drain_delay_seconds={DRAIN_SECONDS}",
        # The server's own default is longer than a short grace period: requests under way would be cut off.
        f"--drain_timeout_seconds={_drain_timeout_seconds(args)}",
    ]


def placement(name: str, args: TorchScriptServiceArgs) -> Placement:
    """Return what all pods of a service together ask of the nodes."""
    return Placement(
        pods=args.most_pods,
        own_labels=_labels(name),
        resources=args.resources,
        network=args.network,
        pool=args.pool,
        rdma=None,
    )


def deployment_manifest(name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedService) -> Manifest:
    """Return the Deployment of a track: alive while it waits for its model, ready when the model is loaded."""
    # The stable track's pods match this alone, with a canary and without, since a selector cannot be changed. It
    # matches the canary's, too; a Deployment leaves pods alone that another one controls.
    selector = {**_labels(name), **(track.labels if track.label == "canary" else {})}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(args.network)},
        # A rollout waits as long as the model takes to appear.
        "progressDeadlineSeconds": 2**31 - 1,
        "template": {
            "metadata": {
                "labels": {
                    **_labels(name),
                    **track.labels,
                    "app.kubernetes.io/component": "inference",
                    KIND_LABEL: "service",
                    ROLE_LABEL: "server",
                    **pod_labels(args.network),
                }
            },
            "spec": placed(_pod_spec(name, args, track, resolved), placement(name, args), resolved.offers),
        },
    }
    if track.replicas is not None:  # else every update would undo what the autoscaler did
        spec["replicas"] = track.replicas
    metadata = _metadata(name, resolved.namespace, track.suffix, track.labels)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def service_manifest(name: str, namespace: str, ports: dict[str, int], track: Track | None = None) -> Manifest:
    """Return the Service in front of the ready pods, or of those of one track."""
    labels = track.labels if track else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, namespace, f"-{track.label}" if track else "", labels),
        "spec": {
            "selector": {**_labels(name), **labels},
            "ports": [{"name": key, "port": number, "targetPort": key} for key, number in ports.items()],
        },
    }


def disruption_budget_manifest(name: str, namespace: str) -> Manifest:
    """Return a budget that keeps all but one pod during a node drain.

    Pods that are not ready may always go: else those that wait for their model would keep a node from being drained.
    """
    budget = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, namespace),
        "spec": {**budget, "selector": {"matchLabels": _labels(name)}},
    }


def service_objects(name: str, args: TorchScriptServiceArgs) -> list[ServiceObject]:
    """Return all objects of a service; which ones there are depends on the arguments alone."""
    ports = service_ports(args.runtime)
    numbers = pod_ports(args)
    metrics_port = numbers.pop("metrics")
    found = [_deployment(name, args, track) for track in args.tracks]
    found.append(
        ServiceObject(
            suffix="", kind=("v1", "Service"), build=lambda known: service_manifest(name, known.namespace, ports)
        )
    )
    found += [_track_service(name, ports, track) for track in args.tracks if track.label]
    found.append(
        ServiceObject(
            suffix="-network",
            kind=("networking.k8s.io/v1", "NetworkPolicy"),
            build=lambda known: service_network_policy_manifest(
                name, known.namespace, _labels(name), list(numbers.values()), metrics_port
            ),
        )
    )
    if args.most_pods > 1:
        found.append(
            ServiceObject(
                suffix="",
                kind=("policy/v1", "PodDisruptionBudget"),
                build=lambda known: disruption_budget_manifest(name, known.namespace),
            )
        )
    if autoscaling := args.autoscaling:
        found.append(
            ServiceObject(
                suffix="",
                kind=("autoscaling/v2", "HorizontalPodAutoscaler"),
                build=lambda known: autoscaler_manifest(_metadata(name, known.namespace), name, autoscaling),
            )
        )
    return found


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
        build=lambda known: service_manifest(name, known.namespace, ports, track),
    )


def _pod_spec(name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedService) -> Manifest:
    triton = args.runtime if isinstance(args.runtime, Triton) else None
    ports = pod_ports(args)
    threads = {"OMP_NUM_THREADS": str(args.resources.whole_cpus)}
    container = Container(
        name="server",
        image=resolved.image,
        command=(
            triton_command(triton, ports, _drain_timeout_seconds(args))
            if triton
            else serve_command(args, track.version)
        ),
        resources=args.resources,
        # CUDA and torch keep caches of kernels below HOME; the root file system is read-only.
        env={**threads, "HOME": "/tmp"} if triton else {**threads, **_thin_environment(name)},  # noqa: S108
        ports=ports,
        writes_output=False,
        extra={**_probes(args, track), **(_DRAIN_BEFORE_STOP if triton else {})},
    )
    links = [repository_links(resolved.image, args.model, track.version)] if triton else []
    return pod_spec(container, resolved.claims, init_containers=links, grace_period_seconds=args.grace_period_seconds)


def _thin_environment(name: str) -> dict[str, str]:
    return {"ATHANOR_JOB": name, **LOG_ENVIRONMENT, "PYTHONUNBUFFERED": "1"}


def _probes(args: TorchScriptServiceArgs, track: Track) -> Manifest:
    of_version = "" if track.version is None else f"/versions/{track.version}"
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}}
    ready = {"httpGet": {"path": f"/v2/models/{args.model}{of_version}/ready", "port": "http"}}
    # Triton answers nothing before it has loaded what was there when it started.
    startup_seconds = 900 if isinstance(args.runtime, Triton) else 120
    return {
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": startup_seconds},
        "livenessProbe": {**live, "periodSeconds": 10},
        "readinessProbe": {**ready, "periodSeconds": 1, "failureThreshold": 2},
    }


def _drain_timeout_seconds(args: TorchScriptServiceArgs) -> int:
    return args.grace_period_seconds - DRAIN_SECONDS - _SHUTDOWN_MARGIN_SECONDS


def _rolling_update(network: PodNetwork) -> dict[str, int]:
    """Let a new pod answer before an old one goes: no request finds the service without a server.

    On the hosts' network the new pod needs the old one's port, and perhaps its node: there the old one goes first.
    """
    on_host = isinstance(network, HostNetwork)
    return {"maxSurge": 0 if on_host else 1, "maxUnavailable": 1 if on_host else 0}


def _labels(name: str) -> dict[str, str]:
    return {SERVICE_LABEL: name}


def _metadata(name: str, namespace: str, suffix: str = "", labels: dict[str, str] | None = None) -> Manifest:
    """Return metadata that keeps `up` from waiting for readiness: the first model may be days of training away."""
    return {
        "name": name + suffix,
        "namespace": namespace,
        "labels": {**_labels(name), **(labels or {})},
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
