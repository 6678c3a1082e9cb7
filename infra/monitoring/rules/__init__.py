"""Prometheus' recording rules and alerts, one module per area."""

from infra.monitoring.rules.manifests import areas, rule_manifests

__all__ = ["areas", "rule_manifests"]
