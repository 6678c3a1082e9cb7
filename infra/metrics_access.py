"""Names that components with metrics and their readers share: the port's name, and the right to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.namespaces import MONITORING_NAMESPACE

if TYPE_CHECKING:
    from infra.manifests import Manifest

METRICS_PORT_NAME = "metrics"
"""Name of the port to read in every pod but those of Prometheus and Alertmanager, whose name is `web`."""
READERS: tuple[Manifest, ...] = (
    {
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [MONITORING_NAMESPACE, "arms-prom"]}
            ]
        }
    },
    {"namespaceSelector": {"matchLabels": {"athanor.dev/reads-metrics": "true"}}},
)
"""Readers of the metrics of workloads, as peers of a NetworkPolicy: our Prometheus, ACK's, and that of a namespace
with this label, which the owner of an existing Prometheus sets."""
