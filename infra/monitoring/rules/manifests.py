"""All rules as PrometheusRules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.kubernetes.parts import PART_OF
from infra.monitoring.rules import gateway, gpu, nodes, pods, prices, queues, serving, storage, targets, training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.manifests import Manifest
    from infra.monitoring.rules.rule import Area
    from infra.settings.alert_thresholds import AlertThresholds


def areas(
    thresholds: AlertThresholds, *, volcano: bool = True, has_gateway: bool = True, run_ends: bool = True
) -> tuple[Area, ...]:
    """Return the rules of every area; what others are computed from comes first. Flags: see `rule_manifests`."""
    return (
        pods.area(),
        gpu.area(thresholds.gpu),
        training.area(thresholds.training, completed=run_ends),
        queues.area(thresholds.queues),
        storage.area(thresholds.storage),
        serving.area(thresholds.serving),
        *([gateway.area(thresholds.serving)] if has_gateway else []),
        nodes.area(thresholds.nodes),
        targets.area(thresholds.targets, volcano=volcano, gateway=has_gateway),
        prices.area(),
    )


def rule_manifests(  # noqa: PLR0913 - each is a fact of the stack
    thresholds: AlertThresholds,
    *,
    namespace: str,
    labels: Mapping[str, str],
    runbook_base_url: str | None = None,
    volcano: bool = True,
    has_gateway: bool = True,
    run_ends: bool = True,
) -> dict[str, Manifest]:
    """Return a PrometheusRule for each area by logical name.

    Args:
        thresholds: From which values on alerts fire.
        namespace: Namespace that Prometheus reads rules from.
        labels: Labels that it selects them by.
        runbook_base_url: Where the pages of docs/runbooks can be read. Default: alerts name their path.
        volcano: Whether its metrics are read, so that somebody must know when there are none.
        has_gateway: The same of a gateway.
        run_ends: Whether anybody is notified of jobs that complete.
    """
    return {
        f"rules-{area.name}": {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": f"athanor-{area.name}", "namespace": namespace, "labels": {**PART_OF, **labels}},
            "spec": {"groups": [_group(area, runbook_base_url)]},
        }
        for area in areas(thresholds, volcano=volcano, has_gateway=has_gateway, run_ends=run_ends)
    }


def _group(area: Area, runbook_base_url: str | None) -> Manifest:
    recordings = [recording.manifest() for recording in area.recordings]
    alerts = [alert.manifest(runbook_base_url) for alert in area.alerts]
    return {"name": f"athanor-{area.name}", "rules": [*recordings, *alerts]}
