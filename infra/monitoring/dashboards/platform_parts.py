"""The rows about the platform's own parts of the cluster's dashboard: what schedules, watches and keeps."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Look, Text, over_time, rows
from infra.monitoring.dashboards.promql import most, quantile


def platform() -> Section:
    """Return what shows Prometheus, Volcano, the API server and the pods of all parts."""
    return Section(
        title="The platform itself",
        panels=(
            over_time(
                "Targets that answer",
                {"{{job}}": "avg by (job) (up)"},
                Text(
                    asks="Does Prometheus see everything, or is a panel empty because nobody answers?",
                    when_bad="Below 1: Prometheus's page of targets says which, and with which error.",
                ),
                RATIO,
            ),
            rows(
                "Alerts",
                'max by (alertname, severity, namespace, workload, node) (ALERTS{alertstate="firing"})',
                {
                    "alertname": "alert",
                    "severity": "severity",
                    "namespace": "namespace",
                    "workload": "workload",
                    "node": "node",
                },
                Text(asks="What fires now?", when_bad="The runbook has the alert's name."),
            ),
            over_time(
                "Scheduling time",
                {
                    "half are faster": quantile(0.5, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
                    "99 of 100 are faster": quantile(0.99, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
                },
                Text(
                    asks="How long does Volcano take for one round?",
                    when_bad="Seconds: its CPU limit, or a great many waiting pods.",
                ),
                Look(unit=units.Milliseconds),
            ),
            over_time(
                "Requests at the API server",
                {"{{request_kind}}": "sum by (request_kind) (apiserver_current_inflight_requests)"},
                Text(
                    asks="How many requests does the API server work on?",
                    when_bad="Hundreds for minutes: some controller lists everything again and again.",
                ),
            ),
            over_time(
                "Series in Prometheus",
                {"{{pod}}": "prometheus_tsdb_head_series"},
                Text(
                    asks="How many series does Prometheus hold?",
                    when_bad="A sudden rise: a job with a label of endless values; it costs memory.",
                ),
            ),
            over_time(
                "Memory of the platform",
                {"{{job}}": most(10, "sum by (job) (process_resident_memory_bytes)")},
                Text(
                    asks="What do the platform's own parts take?",
                    when_bad="Steady growth ends in a restart: raise its limit, and look at the panel beside it.",
                ),
                Look(unit=units.BytesIEC),
            ),
            over_time(
                "Parts that lack pods",
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
                    asks="Which Deployments, DaemonSets and StatefulSets have fewer ready pods than they want?",
                    when_bad="kubectl describe, and the logs of the pod that is missing.",
                ),
            ),
            over_time(
                "Time to compute rules",
                {
                    "{{rule_group}}": most(
                        10, "prometheus_rule_group_last_duration_seconds / prometheus_rule_group_interval_seconds"
                    )
                },
                Text(
                    asks="How much of its interval does each group of rules take?",
                    when_bad="Near 1 alerts come late: give Prometheus more CPU, or drop series.",
                ),
                Look(unit=units.PercentUnit),
            ),
            over_time(
                "Size of the databases",
                {
                    "Prometheus": "sum(prometheus_tsdb_storage_blocks_bytes)",
                    "API server": "max(apiserver_storage_size_bytes)",
                    "logs": "sum(vl_data_size_bytes)",
                },
                Text(
                    asks="How much do Prometheus, etcd and the log store keep?",
                    when_bad="etcd refuses writes from 2 GiB on by default: remove finished jobs. Others: retention.",
                ),
                Look(unit=units.BytesIEC),
            ),
            over_time(
                "Operator's failures",
                {
                    "{{controller}} reconciling": "sum by (controller)"
                    " (increase(prometheus_operator_reconcile_errors_total[$__rate_interval]))",
                    "{{resource}} rejected": "sum by (resource)"
                    ' (prometheus_operator_managed_resources{state="rejected"})',
                },
                Text(
                    asks="Does the Prometheus operator take over all monitors and rules?",
                    when_bad="Its log names the object and the reason; that one is ignored until it is mended.",
                ),
            ),
        ),
    )


def logs() -> Section:
    """Return what shows the way of log lines."""
    return Section(
        title="Logs",
        panels=(
            over_time(
                "Log lines stored",
                {"lines per second": "sum(rate(vl_rows_ingested_total[$__rate_interval]))"},
                Text(
                    asks="How much is logged?",
                    when_bad="A sudden rise: something logs in a loop. Nothing: the collectors, or the store.",
                ),
                Look(unit=units.CountsPerSecond),
            ),
            over_time(
                "Log lines that wait on their node",
                {"{{pod}}": most(10, "sum by (pod) (vlagent_remotewrite_pending_data_bytes)")},
                Text(
                    asks="Do collectors get rid of their lines?",
                    when_bad="Growing: the store is away, full or slow; lines are lost when a node's buffer is full.",
                ),
                Look(unit=units.BytesIEC),
            ),
        ),
    )


def _lacking(wanted: str, there: str) -> str:
    return most(10, f"{wanted} - {there} > 0")
