"""Building blocks of monitors: the targets of a platform's component, and relabelling rules.

Source: prometheus-operator, Documentation/api-reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import NAMESPACE
from infra.monitoring.kept_metrics import KEPT_METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest


def platform_pods(
    name: str,
    namespace: str = NAMESPACE,
    *,
    port: str = METRICS_PORT_NAME,
    relabelings: Sequence[Manifest] = (),
    metric_relabelings: Sequence[Manifest] = (),
) -> Manifest:
    """Return the targets that are the pods of one of the platform's parts, found by app.kubernetes.io/name."""
    endpoint = {
        "port": port,
        "relabelings": [constant("job", name), without("endpoint", "container"), *relabelings],
        "metricRelabelings": [kept(name), *metric_relabelings],
    }
    return {
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
        "podMetricsEndpoints": [endpoint],
    }


def kept(job: str) -> dict[str, Any]:
    """Return the rule that drops all metrics of a kind of target but those of KEPT_METRICS."""
    return {"action": "keep", "sourceLabels": ["__name__"], "regex": "|".join(KEPT_METRICS[job])}


def constant(target: str, value: str) -> dict[str, Any]:
    """Return a rule that sets a label."""
    return {"targetLabel": target, "replacement": value}


def copied(source: str, target: str) -> dict[str, Any]:
    """Return a rule that copies a label."""
    return {"sourceLabels": [source], "targetLabel": target}


def copied_pod_label(label: str, target: str) -> dict[str, Any]:
    """Return a rule that copies a pod's label; Prometheus writes `_` for what its own names cannot hold."""
    name = label.replace(".", "_").replace("/", "_").replace("-", "_")
    return copied(f"__meta_kubernetes_pod_label_{name}", target)


def without(*labels: str) -> dict[str, Any]:
    """Return a rule that drops labels."""
    return {"action": "labeldrop", "regex": "|".join(labels)}
