"""The monitoring itself: what it cannot see, and whether its own parts work.

Metrics: Prometheus and Alertmanager, their own `/metrics`; VictoriaLogs and vlagent, "Monitoring".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring import KUBE_STATE_METRICS, NODE_EXPORTER
from infra.monitoring.rules.rule import Alert, Area
from infra.volcano import SCHEDULER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.monitoring.rules.rule import Severity
    from infra.settings.alert_thresholds import TargetThresholds

NEEDED = {
    KUBE_STATE_METRICS: "kube_pod_info",
    "kubelet": "kubelet_running_pods",
    NODE_EXPORTER: "node_load1",
    SCHEDULER: "volcano_queue_deserved_milli_cpu",
}
"""What alerts would be silent without, and a metric that each always has; an existing Prometheus may name jobs its own
way, so that `up` would not find them."""


def area(limits: TargetThresholds, *, volcano: bool = True) -> Area:
    """Return the rules of targets; without `volcano` nobody expects its metrics."""
    needed = {source: metric for source, metric in NEEDED.items() if volcano or source != SCHEDULER}
    return Area(name="targets", alerts=(*_targets(limits, needed), *_own(limits)))


def _targets(limits: TargetThresholds, needed: Mapping[str, str]) -> Sequence[Alert]:
    missing = " or ".join(
        f'label_replace(absent({metric}), "source", "{source}", "", "")' for source, metric in needed.items()
    )
    return (
        Alert(
            name="TargetDown",
            # A user's program need not have metrics: of jobs only those count that had some (TrainingRankSilent).
            expr='up{job!="training"} == 0',
            for_seconds=limits.down_for_seconds,
            severity="ticket",
            summary="{{ $labels.job }} at {{ $labels.instance }} cannot be read",
            description="Prometheus gets no metrics from it: what happens there is not seen.",
        ),
        Alert(
            name="TargetMissing",
            expr=missing,
            for_seconds=limits.missing_for_seconds,
            severity="page",
            summary="Prometheus reads no {{ $labels.source }}",
            description="Alerts that rest on its metrics are silent, whatever happens.",
        ),
    )


def _own(limits: TargetThresholds) -> Sequence[Alert]:
    def failing(name: str, expr: str, summary: str, description: str, severity: Severity = "ticket") -> Alert:
        return Alert(
            name=name,
            expr=expr,
            for_seconds=limits.failing_for_seconds,
            severity=severity,
            summary=summary,
            description=description,
        )

    return (
        failing(
            "PrometheusConfigReloadFailed",
            "prometheus_config_last_reload_successful == 0",
            "{{ $labels.pod }} runs with an old configuration",
            "New targets and rules are ignored until the configuration can be read.",
        ),
        failing(
            "PrometheusRuleFailures",
            "sum by (pod, rule_group) (increase(prometheus_rule_evaluation_failures_total[5m])) > 0",
            "Rules of {{ $labels.rule_group }} cannot be computed",
            "Alerts of that group may be silent. Prometheus's page `/rules` shows the error.",
        ),
        failing(
            "AlertmanagerConfigReloadFailed",
            "alertmanager_config_last_reload_successful == 0",
            "{{ $labels.pod }} runs with an old configuration",
            "Changes of who is told about what have no effect.",
        ),
        failing(
            "AlertsNotDelivered",
            """
                sum by (pod) (increase(prometheus_notifications_dropped_total[5m])) > 0
                or sum by (pod, integration) (increase(alertmanager_notifications_failed_total[5m])) > 0""",
            "{{ $labels.pod }} cannot deliver alerts",
            "Somebody who should know does not.",
            severity="page",
        ),
        failing(
            "LogsLost",
            """
                sum by (job, pod) (increase(vl_rows_dropped_total[5m])) > 0
                or sum by (job, pod) (increase(vlagent_remotewrite_packets_dropped_total[5m])) > 0
                or max by (job, pod) (vl_storage_is_read_only) == 1""",
            "{{ $labels.pod }} loses log lines",
            "They are not stored and cannot be found later. Is the store's volume full?",
        ),
    )
