"""Serving TorchScript models: the Open Inference Protocol v2 behind a Service, ready once its model exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from infra.manifests import Manifest, resource_from_output
from infra.pod_network import HostNetwork, PodNetwork, SharedEni, pod_labels, port
from infra.pools import NO_OFFERS, PlatformOffers
from workloads.checks import check_name, check_range
from workloads.network_policy import service_network_policy_manifest, warn_without_network_policy
from workloads.placement import Placement, check_placement, placed
from workloads.pods import OUTPUT_PATH, Claims, Container, pod_spec
from workloads.resources import Resources

if TYPE_CHECKING:
    from infra.platform import Platform

HTTP_PORT = 8000
METRICS_PORT = 8002
SERVICE_LABEL = "athanor.dev/service"
# Endpoints are removed while the pod already shuts down: it keeps answering this long before it stops.
_DRAIN_SECONDS = 5
_SHUTDOWN_MARGIN_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class TorchScriptServiceArgs:
    """Arguments of TorchScriptService."""

    model: str
    """Model to serve: a folder of the repository, `/data/output/models/<model>`, in Triton's layout.

    Which versions are served is the version_policy of its config.pbtxt: by default the newest, taken over without a
    failed request as soon as it appears.
    """
    replicas: int = 1
    """Serving pods."""
    resources: Resources = Resources()
    """What one pod asks for."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    network: PodNetwork = SharedEni()
    """Network of the pods."""
    image: pulumi.Input[str] | None = None
    """Image of the pods. Default: the platform's trainer image."""
    grace_period_seconds: int = 30
    """Time between SIGTERM and SIGKILL: requests under way must end within it."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods."""
        check_name("model", self.model)
        check_range("replicas", self.replicas, 0, 1000)
        check_range("grace_period_seconds", self.grace_period_seconds, 2 * _DRAIN_SECONDS, 3600)


@dataclass(frozen=True, kw_only=True)
class ResolvedService:
    """The platform's part of a service, with every Output known."""

    namespace: str
    image: str
    claims: Claims
    offers: PlatformOffers = NO_OFFERS


def serve_command(args: TorchScriptServiceArgs) -> list[str]:
    """Return the command of a serving pod."""
    return [
        "python3",
        "-m",
        "trainer.serve",
        f"--model_repository={OUTPUT_PATH}/models",
        f"--model_name={args.model}",
        "--host=0.0.0.0",
        f"--http_port={port(args.network, HTTP_PORT)}",
        f"--metrics_port={port(args.network, METRICS_PORT)}",
        f"--drain_delay_seconds={_DRAIN_SECONDS}",
        # The server's own default is longer than a short grace period: requests under way would be cut off.
        f"--drain_timeout_seconds={args.grace_period_seconds - _DRAIN_SECONDS - _SHUTDOWN_MARGIN_SECONDS}",
    ]


def _placement(name: str, args: TorchScriptServiceArgs) -> Placement:
    return Placement(
        pods=args.replicas,
        own_labels=_labels(name),
        resources=args.resources,
        network=args.network,
        pool=args.pool,
        rdma=None,
    )


def _rolling_update(network: PodNetwork) -> dict[str, int]:
    """Let a new pod answer before an old one goes: no request finds the service without a server.

    On the hosts' network the new pod needs the old one's port, and perhaps its node: there the old one goes first.
    """
    on_host = isinstance(network, HostNetwork)
    return {"maxSurge": 0 if on_host else 1, "maxUnavailable": 1 if on_host else 0}


def deployment_manifest(name: str, args: TorchScriptServiceArgs, resolved: ResolvedService) -> Manifest:
    """Return the Deployment: alive while it waits for its model, ready when the model is loaded."""
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}}
    ready = {"httpGet": {"path": f"/v2/models/{args.model}/ready", "port": "http"}}
    probes = {
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": 120},
        "livenessProbe": {**live, "periodSeconds": 10},
        "readinessProbe": {**ready, "periodSeconds": 1, "failureThreshold": 2},
    }
    container = Container(
        name="server",
        image=resolved.image,
        command=serve_command(args),
        resources=args.resources,
        env={"OMP_NUM_THREADS": str(args.resources.whole_cpus), "PYTHONUNBUFFERED": "1"},
        ports={"http": port(args.network, HTTP_PORT), "metrics": port(args.network, METRICS_PORT)},
        writes_output=False,
        extra=probes,
    )
    spec = pod_spec(container, resolved.claims, grace_period_seconds=args.grace_period_seconds)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, resolved.namespace),
        "spec": {
            "replicas": args.replicas,
            "selector": {"matchLabels": _labels(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(args.network)},
            # A rollout waits as long as the model takes to appear.
            "progressDeadlineSeconds": 2**31 - 1,
            "template": {
                "metadata": {
                    "labels": {
                        **_labels(name),
                        "app.kubernetes.io/component": "inference",
                        **pod_labels(args.network),
                    }
                },
                "spec": placed(spec, _placement(name, args), resolved.offers),
            },
        },
    }


def service_manifest(name: str, namespace: str) -> Manifest:
    """Return the Service in front of the ready pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, namespace),
        "spec": {
            "selector": _labels(name),
            "ports": [
                {"name": "http", "port": HTTP_PORT, "targetPort": "http"},
                {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"},
            ],
        },
    }


def disruption_budget_manifest(name: str, namespace: str) -> Manifest:
    """Return a budget that keeps all but one pod during a node drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}},
    }


class TorchScriptService(pulumi.ComponentResource):
    """A TorchScript model served over HTTP.

    `up` does not wait for the model: the pods start, stay unready until training has exported it, then serve it.
    """

    url: pulumi.Output[str]
    """Address inside the cluster, such as http://digits.athanor.svc:8000."""

    def __init__(
        self, name: str, platform: Platform, args: TorchScriptServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_name("service name", name)
        super().__init__("athanor:workloads:TorchScriptService", name, None, opts)
        warn_without_network_policy(args.network, self)
        resolved = pulumi.Output.all(
            namespace=platform.namespace,
            image=args.image or platform.trainer_image,
            data=platform.data_claim,
            output=platform.output_claim,
            offers=platform.offers,
        ).apply(lambda known: _resolve(name, args, known))
        children = pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on)

        def child(suffix: str, kind: tuple[str, str], manifest: pulumi.Output[Manifest]) -> None:
            resource_from_output(name + suffix, kind, manifest, children)

        ports = [port(args.network, number) for number in (HTTP_PORT, METRICS_PORT)]
        child("", ("apps/v1", "Deployment"), resolved.apply(lambda known: deployment_manifest(name, args, known)))
        child("", ("v1", "Service"), resolved.apply(lambda known: service_manifest(name, known.namespace)))
        child(
            "-network",
            ("networking.k8s.io/v1", "NetworkPolicy"),
            resolved.apply(lambda known: service_network_policy_manifest(name, known.namespace, _labels(name), ports)),
        )
        if args.replicas > 1:
            child(
                "",
                ("policy/v1", "PodDisruptionBudget"),
                resolved.apply(lambda known: disruption_budget_manifest(name, known.namespace)),
            )
        self.url = resolved.apply(lambda known: f"http://{name}.{known.namespace}.svc:{HTTP_PORT}")
        self.register_outputs({"url": self.url})


def _resolve(name: str, args: TorchScriptServiceArgs, known: dict[str, Any]) -> ResolvedService:
    check_placement(_placement(name, args), known["offers"])
    return ResolvedService(
        namespace=known["namespace"],
        image=known["image"],
        claims=Claims(data=known["data"], output=known["output"]),
        offers=known["offers"],
    )


def _labels(name: str) -> dict[str, str]:
    return {SERVICE_LABEL: name}


def _metadata(name: str, namespace: str) -> Manifest:
    """Return metadata that keeps `up` from waiting for readiness: the first model may be days of training away."""
    annotations = {"pulumi.com/skipAwait": "true"}
    return {"name": name, "namespace": namespace, "labels": _labels(name), "annotations": annotations}
