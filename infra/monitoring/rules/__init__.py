"""What Prometheus computes from the metrics: recording rules and alerts, a module per area."""

from infra.monitoring.rules.manifests import areas, rule_manifests

__all__ = ["areas", "rule_manifests"]
