"""Pure builders of the manifests of a model's service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.kubernetes import controllers
from infra.kubernetes.controllers import PodTemplate
from infra.pod_network_modes import HostNetwork, pod_labels, port
from infra.workload_labels import (
    HOLD_SECONDS_LABEL,
    IDLE_SECONDS_LABEL,
    KIND_LABEL,
    OWNER_LABEL,
    ROLE_LABEL,
    SERVICE_LABEL,
)
from workloads import routes
from workloads.placement import Placement, Spread, gpu_access, placed
from workloads.pods import JOB_VARIABLE, LOG_ENVIRONMENT, Container, pod_spec
from workloads.service_args import DRAIN_SECONDS
from workloads.shadow import SHADOW_SUFFIX
from workloads.triton import MODELS_PATH, Thin, Triton, repository_links, triton_command

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.pod_network_modes import PodNetwork
    from workloads.canary import Track
    from workloads.resolved import ResolvedWorkload
    from workloads.service_args import TorchScriptServiceArgs
    from workloads.triton import Runtime

DRAIN_BEFORE_STOP: Manifest = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(DRAIN_SECONDS)]}}}}
"""Hook of Triton's container, which would end without such a delay; the thin server has its own."""
_SHUTDOWN_MARGIN_SECONDS = 2
_RESTART_SECONDS = 30
"""For the process of one of several models: the pod stays ready meanwhile, or the others would get no requests."""


def probes(args: TorchScriptServiceArgs, track: Track) -> Manifest:
    """Return the probes of a pod: alive while it waits for models, ready when that of its track, or all, are loaded."""
    of_version = "" if track.version is None else f"/versions/{track.version}"
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}}
    of_model = "health" if args.model is None else f"models/{args.model}{of_version}"
    ready = {"httpGet": {"path": f"/v2/{of_model}/ready", "port": "http"}}
    # Triton answers nothing before it has loaded what was there when it started.
    startup_seconds = 900 if isinstance(args.runtime, Triton) else 120
    return {
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": startup_seconds},
        "livenessProbe": {**live, "periodSeconds": 10},
        "readinessProbe": {**ready, "periodSeconds": 1, "failureThreshold": 2 if args.model else _RESTART_SECONDS},
    }


def drain_timeout_seconds(args: TorchScriptServiceArgs) -> int:
    """Return how long a pod that stops may take for the requests under way."""
    return args.grace_period_seconds - DRAIN_SECONDS - _SHUTDOWN_MARGIN_SECONDS


def rolling_update(network: PodNetwork) -> dict[str, int]:
    """Return a strategy in which a new pod answers before an old one stops, so that no request fails.

    On the hosts' network the new pod needs the old one's port, and perhaps its node, so the old one stops first.
    """
    on_host = isinstance(network, HostNetwork)
    return {"maxSurge": 0 if on_host else 1, "maxUnavailable": 1 if on_host else 0}


HTTP_PORT = 8000
GRPC_PORT = 8001
SERVICE_METRICS_PORT = 8002


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
    """Return the requirements of all pods of a service for the nodes."""
    return Placement(
        pods=args.most_pods,
        own_labels=service_labels(name),
        resources=args.resources,
        network=args.network,
        pool=args.pool,
        rdma=None,
        spread=args.spread or (Spread() if args.most_pods > 1 else None),
        spread_labels=service_labels(name),
    )


def deployment_manifest(name: str, args: TorchScriptServiceArgs, track: Track, resolved: ResolvedWorkload) -> Manifest:
    """Return the Deployment of a track: alive while it waits for its model, ready when the model is loaded."""
    # The stable track's pods match this alone, with a canary and without, since a selector cannot be changed. It
    # matches the canary's, too; a Deployment leaves pods alone that another one controls.
    selector = {**service_labels(name), **(track.labels if track.label == "canary" else {})}
    pods = PodTemplate(
        selector=selector,
        labels={
            **service_labels(name),
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
    return controllers.deployment_manifest(service_metadata(name, resolved, track.suffix, labels), pods, more)


def _zero_labels(args: TorchScriptServiceArgs) -> dict[str, str]:
    """Return the labels by which the activator finds a Deployment."""
    if args.autoscaling is None or args.hold_seconds is None:
        return {}
    return {IDLE_SECONDS_LABEL: str(args.autoscaling.idle), HOLD_SECONDS_LABEL: str(args.hold_seconds)}


def service_manifest(
    name: str, resolved: ResolvedWorkload, ports: dict[str, int], track: Track | None = None
) -> Manifest:
    """Return the Service in front of the ready pods, or of those of one track."""
    labels = track.labels if track else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": service_metadata(name, resolved, f"-{track.label}" if track else "", labels),
        "spec": {
            "selector": {**service_labels(name), **labels},
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
        "metadata": service_metadata(name, resolved),
        "spec": {**budget, "selector": {"matchLabels": service_labels(name)}},
    }


def service_url(host: str, resolved: ResolvedWorkload) -> str:
    """Return the address of a Service inside the cluster."""
    return f"http://{host}.{resolved.platform.namespace}.svc:{HTTP_PORT}"


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
    return {JOB_VARIABLE: name, **LOG_ENVIRONMENT, "PYTHONUNBUFFERED": "1"}


def service_labels(name: str) -> dict[str, str]:
    """Return the labels of all pods of a service, of any track, and of all its objects."""
    return {SERVICE_LABEL: name}


def service_metadata(
    name: str, resolved: ResolvedWorkload, suffix: str = "", labels: dict[str, str] | None = None
) -> Manifest:
    """Return metadata that keeps `up` from waiting for readiness: the first model may be days of training away."""
    return {
        "name": name + suffix,
        "namespace": resolved.platform.namespace,
        "labels": {**service_labels(name), OWNER_LABEL: resolved.owner, **(labels or {})},
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
