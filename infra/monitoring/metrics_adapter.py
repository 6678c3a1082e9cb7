"""prometheus-adapter: serves Prometheus' metrics of services through the metrics APIs that autoscalers read.

Why this one: docs/decisions/0025-autoscalers-read-prometheus.md. Source: prometheus-adapter 0.12, docs/config.md; the
aggregation layer: Kubernetes, "Set up an Extension API Server".
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.autoscaling_metrics import LATENCY_METRIC, QUEUE_METRIC
from infra.images import METRICS_ADAPTER_IMAGE
from infra.kubernetes.access import READ, rule
from infra.kubernetes.parts import PART_OF
from infra.kubernetes.pods import container_security, resources
from infra.monitoring import METRICS_ADAPTER, METRICS_ADAPTER_PORT, NAMESPACE, prometheus
from infra.monitoring.monitors import SERVING
from infra.monitoring.parts import account, api_client_pod, deployment, grant, metadata, network_policy

if TYPE_CHECKING:
    from infra.manifests import Manifest

HOST = f"{METRICS_ADAPTER}.{NAMESPACE}.svc"
"""Name by which the cluster's API server calls it."""
CUSTOM_METRICS_API, RESOURCE_METRICS_API = "v1beta2.custom.metrics.k8s.io", "v1beta1.metrics.k8s.io"
_SCRAPES = 4
"""Scrapes that a value covers: a rate needs two, and one or two may be late."""
_CADVISOR_SECONDS = 60
"""Shortest time that a CPU rate covers: cAdvisor itself looks at a container every 10 to 20 seconds."""
_PORT_NAME = "https"
_CONFIG = f"{METRICS_ADAPTER}-config"
_CONFIG_FOLDER, _CERTIFICATE_FOLDER = "/etc/adapter", "/certificate"


@dataclass(frozen=True, kw_only=True)
class MetricsAdapterArgs:
    """Arguments of the objects of the adapter."""

    scrape_interval_seconds: int
    """Interval at which Prometheus scrapes its targets."""
    resource_metrics: bool
    """Whether it also serves CPU and memory: at most one server of a cluster may."""
    image: str
    """The platform's trainer image, whose program creates the certificate."""

    @property
    def window_seconds(self) -> int:
        """Seconds that a value covers."""
        return _SCRAPES * self.scrape_interval_seconds

    @property
    def api_services(self) -> tuple[str, ...]:
        """Names of the APIs that it serves."""
        return (CUSTOM_METRICS_API, *([RESOURCE_METRICS_API] if self.resource_metrics else []))


def metrics_adapter_manifests(args: MetricsAdapterArgs) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    config = {"config.yaml": json.dumps(adapter_config(args), indent=1)}
    return {
        **permission_manifests(args),
        # The API server calls from addresses that no policy can name. Anyone else gets no answer.
        f"{METRICS_ADAPTER}-network": network_policy(METRICS_ADAPTER, {METRICS_ADAPTER_PORT: []}, [{}]),
        _CONFIG: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(_CONFIG, part=METRICS_ADAPTER),
            "data": config,
        },
        **{f"{METRICS_ADAPTER}-{name}": _api_service(name) for name in args.api_services},
        METRICS_ADAPTER: _deployment(args, config),
        f"{METRICS_ADAPTER}-service": _service(),
    }


def permission_manifests(args: MetricsAdapterArgs) -> dict[str, Manifest]:
    """Return account, roles and bindings: it looks at pods, asks who is asking, and names its own certificate."""
    everywhere = [
        rule("core", "pods", READ),
        *([rule("core", "nodes", READ)] if args.resource_metrics else []),
        rule("authentication.k8s.io", "tokenreviews", ("create",)),
        rule("authorization.k8s.io", "subjectaccessreviews", ("create",)),
        {**rule("apiregistration.k8s.io", "apiservices", ("patch",)), "resourceNames": list(args.api_services)},
    ]
    # How the API server proves that it is the one that asks.
    authority = {**rule("core", "configmaps", READ), "resourceNames": ["extension-apiserver-authentication"]}
    in_kube_system = grant(METRICS_ADAPTER, [authority], "kube-system")
    by_kind = {
        "account": account(METRICS_ADAPTER),
        **grant(METRICS_ADAPTER, everywhere),
        **{f"authority-{kind}": manifest for kind, manifest in in_kube_system.items()},
        **({"readers": _readers()} if args.resource_metrics else {}),
    }
    return {f"{METRICS_ADAPTER}-{kind.lower()}": manifest for kind, manifest in by_kind.items()}


def adapter_config(args: MetricsAdapterArgs) -> dict[str, Any]:
    """Return the metrics that it serves, with their queries."""
    own = {"rules": [_queue_rule(args), _latency_rule(args)]}
    return {**own, "resourceRules": _resource_rules(args)} if args.resource_metrics else own


def _queue_rule(args: MetricsAdapterArgs) -> dict[str, Any]:
    # Read between two batches, a queue is empty: its average over some scrapes says how long it is.
    over_time = f"avg_over_time(<<.Series>>{{<<.LabelMatchers>>}}[{args.window_seconds}s])"
    return {
        "seriesQuery": f'{QUEUE_METRIC}{{job="{SERVING}",namespace!="",pod!=""}}',
        "resources": _labels(namespace="namespace", pod="pod"),
        "name": {"as": QUEUE_METRIC},
        "metricsQuery": f"sum by (<<.GroupBy>>) ({over_time})",
    }


def _latency_rule(args: MetricsAdapterArgs) -> dict[str, Any]:
    rate = f"rate(<<.Series>>{{<<.LabelMatchers>>}}[{args.window_seconds}s])"
    return {
        "seriesQuery": f'athanor_request_duration_seconds_bucket{{job="{SERVING}",namespace!="",workload!=""}}',
        "resources": _labels(namespace="namespace", workload="service"),
        "name": {"as": LATENCY_METRIC},
        # Without requests it is not a number, which the adapter serves as 0.
        "metricsQuery": f"1000 * histogram_quantile(0.99, sum by (<<.GroupBy>>, le) ({rate}))",
    }


def _resource_rules(args: MetricsAdapterArgs) -> dict[str, Any]:
    seconds = max(args.window_seconds, _CADVISOR_SECONDS)
    of_resources = {"resources": _labels(namespace="namespace", node="node", pod="pod"), "containerLabel": "container"}
    used = f"rate(container_cpu_usage_seconds_total{{<<.LabelMatchers>>}}[{seconds}s])"
    idle = f'rate(node_cpu_seconds_total{{mode="idle",<<.LabelMatchers>>}}[{seconds}s])'
    total, available = (f"node_memory_{what}_bytes{{<<.LabelMatchers>>}}" for what in ("MemTotal", "MemAvailable"))
    return {
        "cpu": {
            **of_resources,
            "containerQuery": f"sum by (<<.GroupBy>>) ({used})",
            "nodeQuery": f"sum by (<<.GroupBy>>) (1 - {idle})",
        },
        "memory": {
            **of_resources,
            "containerQuery": "sum by (<<.GroupBy>>) (container_memory_working_set_bytes{<<.LabelMatchers>>})",
            "nodeQuery": f"sum by (<<.GroupBy>>) ({total} - {available})",
        },
        "window": f"{seconds}s",
    }


def _labels(**kinds: str) -> dict[str, Any]:
    """Return which kind of object each label of the series names."""
    return {"overrides": {label: {"resource": kind} for label, kind in kinds.items()}}


def _api_service(name: str) -> Manifest:
    """Return the registration of an API version; the adapter itself names its certificate there (`caBundle`)."""
    version, _, group = name.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        # It is available when the pods are, which wait for it.
        "metadata": {"name": name, "labels": PART_OF, "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": METRICS_ADAPTER, "namespace": NAMESPACE},
        },
    }


def _readers() -> Manifest:
    """Return the role that lets those who may view a namespace see what its pods use (`kubectl top`)."""
    levels = ("view", "edit", "admin")
    aggregated = {f"rbac.authorization.k8s.io/aggregate-to-{level}": "true" for level in levels}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{METRICS_ADAPTER}-readers", "labels": {**PART_OF, **aggregated}},
        "rules": [rule("metrics.k8s.io", "pods nodes", ("get", "list"))],
    }


def _service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(METRICS_ADAPTER),
        "spec": {
            "selector": {"app.kubernetes.io/name": METRICS_ADAPTER},
            # The port of APIServices that name none.
            "ports": [{"name": _PORT_NAME, "port": 443, "targetPort": _PORT_NAME}],
        },
    }


def adapter_arguments(args: MetricsAdapterArgs) -> list[str]:
    """Return its command line."""
    return [
        f"--secure-port={METRICS_ADAPTER_PORT}",
        f"--tls-cert-file={_CERTIFICATE_FOLDER}/tls.crt",
        f"--tls-private-key-file={_CERTIFICATE_FOLDER}/tls.key",
        f"--config={_CONFIG_FOLDER}/config.yaml",
        f"--prometheus-url={prometheus.OPERATED.url}",
        # How soon the metrics of the first service are there, and how long they stay after the last one.
        f"--metrics-relist-interval={args.scrape_interval_seconds}s",
        f"--metrics-max-age={args.window_seconds}s",
    ]


def _deployment(args: MetricsAdapterArgs, config: dict[str, str]) -> Manifest:
    certificate = {"name": "certificate", "mountPath": _CERTIFICATE_FOLDER}
    container = {
        "name": METRICS_ADAPTER,
        "image": METRICS_ADAPTER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": adapter_arguments(args),
        "ports": [{"name": _PORT_NAME, "containerPort": METRICS_ADAPTER_PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": _PORT_NAME, "scheme": "HTTPS"},
            "periodSeconds": 2,
        },
        "resources": resources("20m", "64Mi", "512Mi"),
        "securityContext": container_security(),
        "volumeMounts": [
            {**certificate, "readOnly": True},
            {"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True},
        ],
    }
    pod = {
        **api_client_pod(METRICS_ADAPTER, container),
        "initContainers": [_certificate_container(args, certificate)],
        "volumes": [
            # In memory: the key is on no disk.
            {"name": "certificate", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "config", "configMap": {"name": _CONFIG}},
        ],
    }
    digest = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    return deployment(METRICS_ADAPTER, pod, {"athanor.dev/config": digest})


def _certificate_container(args: MetricsAdapterArgs, certificate: Manifest) -> Manifest:
    program = ["python3", "-m", "trainer.helpers.serving_certificate", f"--host={HOST}"]
    return {
        "name": "certificate",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*program, f"--folder={_CERTIFICATE_FOLDER}", "--api_services", *args.api_services],
        "resources": resources("20m", "64Mi", "256Mi"),
        "securityContext": container_security(),
        "volumeMounts": [certificate],
    }
