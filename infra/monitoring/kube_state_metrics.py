"""kube-state-metrics: the API server's view of pods, nodes, claims and quotas, as metrics.

Source: kube-state-metrics 2.20, docs/developer/cli-arguments.md and docs/metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import KUBE_STATE_METRICS_IMAGE
from infra.kubernetes.access import rule
from infra.kubernetes.pods import container_security, resources
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import (
    KUBE_STATE_METRICS,
    KUBE_STATE_METRICS_OWN_PORT,
    KUBE_STATE_METRICS_PORT,
    PROMETHEUS,
)
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.parts import account, api_client_pod, callers, deployment, grant, network_policy
from infra.node_labels import POOL_LABEL
from infra.workload_labels import JOB_LABEL, KIND_LABEL, QUEUE_LABEL, ROLE_LABEL, SERVICE_LABEL

if TYPE_CHECKING:
    from infra.manifests import Manifest

KINDS = {
    "core": ("nodes", "persistentvolumeclaims", "pods", "resourcequotas"),
    "apps": ("daemonsets", "deployments", "statefulsets"),
}
"""Kinds that it reads, by API group. Each kind is a list of all its objects in its memory."""
LABELS = {
    "nodes": (POOL_LABEL, "node.kubernetes.io/instance-type"),
    "pods": (JOB_LABEL, KIND_LABEL, ROLE_LABEL, SERVICE_LABEL, QUEUE_LABEL),
}
"""Labels of objects that become labels of kube_<kind>_labels."""


def kube_state_metrics_arguments() -> list[str]:
    """Return its command line."""
    allowed = ",".join(f"{kind}=[{','.join(names)}]" for kind, names in LABELS.items())
    return [
        f"--port={KUBE_STATE_METRICS_PORT}",
        f"--telemetry-port={KUBE_STATE_METRICS_OWN_PORT}",
        f"--resources={','.join(sorted(kind for kinds in KINDS.values() for kind in kinds))}",
        f"--metric-allowlist={','.join(KEPT_METRICS[KUBE_STATE_METRICS])}",
        f"--metric-labels-allowlist={allowed}",
    ]


def kube_state_metrics_manifests() -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    rules = [rule(group, " ".join(kinds), ("list", "watch")) for group, kinds in KINDS.items()]
    by_kind = {
        "account": account(KUBE_STATE_METRICS),
        **grant(KUBE_STATE_METRICS, rules),
        "network": network_policy(KUBE_STATE_METRICS, {KUBE_STATE_METRICS_PORT: [callers(PROMETHEUS)]}, [{}]),
    }
    permissions = {f"{KUBE_STATE_METRICS}-{kind.lower()}": manifest for kind, manifest in by_kind.items()}
    return {**permissions, KUBE_STATE_METRICS: _deployment()}


def _deployment() -> Manifest:
    container = {
        "name": KUBE_STATE_METRICS,
        "image": KUBE_STATE_METRICS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": kube_state_metrics_arguments(),
        "ports": [
            {"name": METRICS_PORT_NAME, "containerPort": KUBE_STATE_METRICS_PORT},
            {"name": "own-metrics", "containerPort": KUBE_STATE_METRICS_OWN_PORT},
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "own-metrics"}, "periodSeconds": 2},
        "resources": resources("20m", "48Mi", "1Gi"),
        "securityContext": container_security(),
    }
    return deployment(KUBE_STATE_METRICS, api_client_pod(KUBE_STATE_METRICS, container))
