"""The rows of the cluster's dashboard about the platform's own components: scheduling, monitoring, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Look, Text, over_time, rows
from infra.monitoring.dashboards.promql import most, quantile

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel


def platform() -> Section:
    """Return the row about Prometheus, Volcano, the API server and the pods of all parts."""
    return Section(
        title="Platform components",
        panels=(
            _targets_up(),
            _alerts(),
            _scheduling_time(),
            _requests_at_the_api_server(),
            _series_in_prometheus(),
            _memory_of_the_platform(),
            _components_with_missing_pods(),
            _rule_evaluation_time(),
            _size_of_the_databases(),
            _operator_failures(),
        ),
    )


def _targets_up() -> Panel:
    return over_time(
        "Targets up",
        {"{{job}}": "avg by (job) (up)"},
        Text(
            asks="Can Prometheus scrape all targets, or is a panel empty because a target does not answer?",
            when_bad="Below 100%: the targets page of Prometheus shows which target fails, and why.",
        ),
        RATIO,
    )


def _alerts() -> Panel:
    return rows(
        "Alerts",
        'max by (alertname, severity, namespace, workload, node) (ALERTS{alertstate="firing"})',
        {
            "alertname": "alert",
            "severity": "severity",
            "namespace": "namespace",
            "workload": "workload",
            "node": "node",
        },
        Text(asks="Which alerts are firing?", when_bad="Each alert has a runbook of the same name."),
    )


def _scheduling_time() -> Panel:
    return over_time(
        "Scheduling time",
        {
            "median": quantile(0.5, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
            "99th percentile": quantile(0.99, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
        },
        Text(
            asks="How long does Volcano take for one scheduling cycle?",
            when_bad="Seconds: it reaches its CPU limit, or a very large number of pods is waiting.",
        ),
        Look(unit=units.Milliseconds),
    )


def _requests_at_the_api_server() -> Panel:
    return over_time(
        "Requests at the API server",
        {"{{request_kind}}": "sum by (request_kind) (apiserver_current_inflight_requests)"},
        Text(
            asks="How many requests is the API server processing?",
            when_bad="Hundreds for minutes: a controller keeps listing all objects.",
        ),
    )


def _series_in_prometheus() -> Panel:
    return over_time(
        "Series in Prometheus",
        {"{{pod}}": "prometheus_tsdb_head_series"},
        Text(
            asks="How many active series does Prometheus have?",
            when_bad="A sudden rise: a job has a label with unbounded values, which costs memory.",
        ),
    )


def _memory_of_the_platform() -> Panel:
    return over_time(
        "Memory of the platform",
        {"{{job}}": most(10, "sum by (job) (process_resident_memory_bytes)")},
        Text(
            asks="How much memory do the platform's own components use?",
            when_bad="Steady growth ends in a restart: raise the limit, and check the number of series.",
        ),
        Look(unit=units.BytesIEC),
    )


def _components_with_missing_pods() -> Panel:
    return over_time(
        "Components with missing pods",
        {
            "{{namespace}}/{{daemonset}}": _lacking(
                "kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_ready"
            ),
            "{{namespace}}/{{deployment}}": _lacking(
                "kube_deployment_spec_replicas", "kube_deployment_status_replicas_available"
            ),
            "{{namespace}}/{{statefulset}}": _lacking(
                "kube_statefulset_replicas", "kube_statefulset_status_replicas_ready"
            ),
        },
        Text(
            asks="Which Deployments, DaemonSets and StatefulSets have fewer ready pods than desired?",
            when_bad="Run kubectl describe, and read the logs of the pod that is not ready.",
        ),
    )


def _rule_evaluation_time() -> Panel:
    return over_time(
        "Rule evaluation time",
        {
            "{{rule_group}}": most(
                10, "prometheus_rule_group_last_duration_seconds / prometheus_rule_group_interval_seconds"
            )
        },
        Text(
            asks="How much of its interval does the evaluation of each rule group take?",
            when_bad="Near 100%: alerts are late. Give Prometheus more CPU, or drop series.",
        ),
        Look(unit=units.PercentUnit),
    )


def _size_of_the_databases() -> Panel:
    return over_time(
        "Size of the databases",
        {
            "Prometheus": "sum(prometheus_tsdb_storage_blocks_bytes)",
            "API server": "max(apiserver_storage_size_bytes)",
            "logs": "sum(vl_data_size_bytes)",
        },
        Text(
            asks="How much data do Prometheus, etcd and the log store hold?",
            when_bad="etcd rejects writes from 2 GiB on by default: delete finished jobs. Prometheus and logs: shorten "
            "the retention.",
        ),
        Look(unit=units.BytesIEC),
    )


def _operator_failures() -> Panel:
    return over_time(
        "Operator failures",
        {
            "{{controller}} reconciling": "sum by (controller)"
            " (increase(prometheus_operator_reconcile_errors_total[$__rate_interval]))",
            "{{resource}} rejected": 'sum by (resource) (prometheus_operator_managed_resources{state="rejected"})',
        },
        Text(
            asks="Does the Prometheus operator accept all monitors and rules?",
            when_bad="Its log names the object and the reason. The object is ignored until it is fixed.",
        ),
    )


def logs() -> Section:
    """Return the row about the collection of logs."""
    return Section(
        title="Logs",
        panels=(
            _log_lines_stored(),
            _log_lines_waiting_on_nodes(),
        ),
    )


def _log_lines_stored() -> Panel:
    return over_time(
        "Log lines stored",
        {"lines per second": "sum(rate(vl_rows_ingested_total[$__rate_interval]))"},
        Text(
            asks="How much is logged?",
            when_bad="A sudden rise: a program logs in a loop. Nothing: check the log collectors and the log store.",
        ),
        Look(unit=units.CountsPerSecond),
    )


def _log_lines_waiting_on_nodes() -> Panel:
    return over_time(
        "Log lines waiting on nodes",
        {"{{pod}}": most(10, "sum by (pod) (vlagent_remotewrite_pending_data_bytes)")},
        Text(
            asks="Can the log collectors deliver their lines?",
            when_bad="Growing: the log store is down, full or slow. Lines are lost when a node's buffer is full.",
        ),
        Look(unit=units.BytesIEC),
    )


def _lacking(expected: str, there: str) -> str:
    return most(10, f"{expected} - {there} > 0")
