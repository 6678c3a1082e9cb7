"""Scrape targets of a gateway: its proxies, and the activator of services that scale to zero.

A sample's namespace and workload are those of the service that it is about, as in the metrics of the service itself.
Metrics that a proxy counts for all services together have neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway import ACTIVATOR, NAMESPACE, PROXY
from infra.gateway.proxies import PROXY_LABELS
from infra.gateway.proxy_metrics import FILTER, PATH, ROUTE_OF_CLUSTER
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring.target_parts import constant, kept, platform_pods, without

if TYPE_CHECKING:
    from infra.manifests import Manifest


def gateway_targets() -> dict[str, Manifest]:
    """Return both monitors' specs by the value of the label `job`."""
    activator = platform_pods(ACTIVATOR, NAMESPACE, relabelings=[without("namespace", "pod")])
    return {ACTIVATOR: activator, PROXY: _proxies()}


def _proxies() -> Manifest:
    endpoint = {
        "port": METRICS_PORT_NAME,
        "path": PATH,
        "params": {"filter": [FILTER]},
        "relabelings": [constant("job", PROXY), without("endpoint", "container", "namespace", "pod")],
        # The name of the cluster stays: without it, the rules of a route would be one series.
        "metricRelabelings": [kept(PROXY), _of_route("namespace", 1), _of_route("workload", 2)],
    }
    return {
        "namespaceSelector": {"matchNames": [NAMESPACE]},
        "selector": {"matchLabels": dict(PROXY_LABELS)},
        "podMetricsEndpoints": [endpoint],
    }


def _of_route(target: str, group: int) -> Manifest:
    """Return the rule that copies a group of ROUTE_OF_CLUSTER to a label."""
    return {
        "action": "replace",
        "sourceLabels": ["envoy_cluster_name"],
        "regex": ROUTE_OF_CLUSTER,
        "targetLabel": target,
        "replacement": f"${group}",
    }
