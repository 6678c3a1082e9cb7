"""Rules about the monitoring itself: failed scrapes, and the state of its own components.

Metrics: Prometheus and Alertmanager, their own `/metrics`; VictoriaLogs and vlagent, "Monitoring".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway import PROXY
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
    PROXY: "envoy_server_live",
}
"""Sources that alerts depend on, with a metric that each always has. An existing Prometheus may name jobs differently,
so `up` would not find them."""


def area(limits: TargetThresholds, *, volcano: bool = True, gateway: bool = True) -> Area:
    """Return the rules of targets; without `volcano` or `gateway`, its metrics are not expected."""
    absent = {source for source, is_there in ((SCHEDULER, volcano), (PROXY, gateway)) if not is_there}
    needed = {source: metric for source, metric in NEEDED.items() if source not in absent}
    return Area(name="targets", alerts=(*_targets(limits, needed), *_own(limits)))


def _targets(limits: TargetThresholds, needed: Mapping[str, str]) -> Sequence[Alert]:
    missing = " or ".join(
        f'label_replace(absent({metric}), "source", "{source}", "", "")' for source, metric in needed.items()
    )
    return (
        Alert(
            name="TargetDown",
            # A user's program need not serve metrics: only jobs that did are expected to (TrainingRankSilent).
            expr='up{job!="training"} == 0',
            for_seconds=limits.down_for_seconds,
            severity="ticket",
            summary="{{ $labels.job }} at {{ $labels.instance }} cannot be scraped",
            description="Prometheus gets no metrics from it, so its problems go unnoticed.",
        ),
        Alert(
            name="TargetMissing",
            expr=missing,
            for_seconds=limits.missing_for_seconds,
            severity="page",
            summary="Prometheus scrapes no {{ $labels.source }}",
            description="Alerts that depend on its metrics cannot fire. Check its pods and its monitor.",
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
            "{{ $labels.pod }} runs with an outdated configuration",
            "New targets and rules are ignored until the configuration is valid. The pod's log names the error.",
        ),
        failing(
            "PrometheusRuleFailures",
            "sum by (pod, rule_group) (increase(prometheus_rule_evaluation_failures_total[5m])) > 0",
            "Rules of {{ $labels.rule_group }} cannot be evaluated",
            "Alerts of that group may not fire. Prometheus's page `/rules` shows the error.",
        ),
        failing(
            "AlertmanagerConfigReloadFailed",
            "alertmanager_config_last_reload_successful == 0",
            "{{ $labels.pod }} runs with an outdated configuration",
            "Changes to routes and receivers have no effect until it is valid. The pod's log names the error.",
        ),
        failing(
            "AlertsNotDelivered",
            """
                sum by (pod) (increase(prometheus_notifications_dropped_total[5m])) > 0
                or sum by (pod, integration) (increase(alertmanager_notifications_failed_total[5m])) > 0""",
            "{{ $labels.pod }} cannot deliver alerts",
            "People are not notified of firing alerts. The pod's log names the error.",
            severity="page",
        ),
        failing(
            "LogsLost",
            """
                sum by (job, pod) (increase(vl_rows_dropped_total[5m])) > 0
                or sum by (job, pod) (increase(vlagent_remotewrite_packets_dropped_total[5m])) > 0
                or max by (job, pod) (vl_storage_is_read_only) == 1""",
            "{{ $labels.pod }} is losing log lines",
            "They are not stored and cannot be found later. Check whether the log store's volume is full.",
        ),
    )
