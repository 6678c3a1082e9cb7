"""What the monitoring cannot see of others and of itself."""

from infra.monitoring.rules.targets import NEEDED
from tests.unit.infra.monitoring.rules.promtool import AlertCase, series

_ALL_THERE = {f'{metric}{{job="{source}"}}': "1x100" for source, metric in NEEDED.items()}


def _missing(source, metric):
    return AlertCase(
        alert="TargetMissing",
        says=f"nothing comes from {source}",
        series={**_ALL_THERE, f'{metric}{{job="{source}"}}': "1x4 stale _x40 1x40"},
        fires={"21m": [{"source": source}], "45m": [{"source": source}]},
        quiet=["4m", "19m", "47m"],
    )


def _own(metric, values, labels, quiet_series):
    """Return the series of a program's own metric, and one of another pod."""
    return {series(metric, labels): values, series(metric, {**labels, "pod": "other-0"}): quiet_series}


_PROMETHEUS = {"job": "prometheus", "namespace": "monitoring", "pod": "prometheus-athanor-0"}
_ALERTMANAGER = {"job": "alertmanager", "namespace": "monitoring", "pod": "alertmanager-athanor-0"}
_VLAGENT = {"job": "vlagent", "pod": "vlagent-0"}
_STORE = {"job": "victoria-logs", "pod": "victoria-logs-0"}
_BROKEN = "0x4 0+1x20 20x40"

CASES = (
    AlertCase(
        alert="TargetDown",
        says="for ten minutes; ranks of jobs have an alert of their own",
        series={
            'up{job="node-exporter", instance="10.0.0.1:9100"}': "1x4 0x20 1x40",
            'up{job="kubelet", instance="10.0.0.1:10250"}': "1x100",
            'up{job="training", instance="10.0.0.2:8002"}': "0x100",
        },
        fires={
            "16m": [{"job": "node-exporter", "instance": "10.0.0.1:9100"}],
            "24m": [{"job": "node-exporter", "instance": "10.0.0.1:9100"}],
        },
        quiet=["14m", "26m"],
    ),
    *(_missing(source, metric) for source, metric in NEEDED.items()),
    AlertCase(
        alert="PrometheusConfigReloadFailed",
        says="until it can be read",
        series=_own("prometheus_config_last_reload_successful", "1x4 0x20 1x40", _PROMETHEUS, "1x100"),
        fires={"16m": [_PROMETHEUS]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="AlertmanagerConfigReloadFailed",
        says="until it can be read",
        series=_own("alertmanager_config_last_reload_successful", "1x4 0x20 1x40", _ALERTMANAGER, "1x100"),
        fires={"16m": [_ALERTMANAGER]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="PrometheusRuleFailures",
        says="by group, until they can be computed",
        series=_own(
            "prometheus_rule_evaluation_failures_total", _BROKEN, {**_PROMETHEUS, "rule_group": "athanor-gpu"}, "3x100"
        ),
        fires={"17m": [{"pod": "prometheus-athanor-0", "rule_group": "athanor-gpu"}]},
        quiet=["14m", "32m"],
    ),
    AlertCase(
        alert="AlertsNotDelivered",
        says="dropped by Prometheus",
        series=_own("prometheus_notifications_dropped_total", _BROKEN, _PROMETHEUS, "3x100"),
        fires={"17m": [{"pod": "prometheus-athanor-0"}]},
        quiet=["14m", "32m"],
    ),
    AlertCase(
        alert="AlertsNotDelivered",
        says="refused by a receiver",
        series=_own(
            "alertmanager_notifications_failed_total", _BROKEN, {**_ALERTMANAGER, "integration": "webhook"}, "3x100"
        ),
        fires={"17m": [{"pod": "alertmanager-athanor-0", "integration": "webhook"}]},
        quiet=["14m", "32m"],
    ),
    AlertCase(
        alert="LogsLost",
        says="by the store",
        series=_own("vl_rows_dropped_total", _BROKEN, {**_STORE, "reason": "too_old"}, "3x100"),
        fires={"17m": [_STORE]},
        quiet=["14m", "32m"],
    ),
    AlertCase(
        alert="LogsLost",
        says="on the way",
        series=_own("vlagent_remotewrite_packets_dropped_total", _BROKEN, _VLAGENT, "3x100"),
        fires={"17m": [_VLAGENT]},
        quiet=["14m", "32m"],
    ),
    AlertCase(
        alert="LogsLost",
        says="the store's volume is full",
        series=_own("vl_storage_is_read_only", "0x4 1x20 0x40", _STORE, "0x100"),
        fires={"16m": [_STORE]},
        quiet=["14m", "26m"],
    ),
)
