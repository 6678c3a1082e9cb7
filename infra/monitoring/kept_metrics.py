"""The metrics that are stored, by target: those that a rule or a panel uses, and no others.

Tests compare this table with the queries of all rules and dashboards, in both directions. Metrics of training and
serving pods are not in it: they come from the platform's trainer or from users, and all are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway.proxy_metrics import PROXY_METRICS
from infra.gpu.dcgm_exporter import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


KEPT_METRICS: Mapping[str, Sequence[str]] = {
    "volcano-scheduler": (
        "volcano_queue_allocated_milli_cpu",
        "volcano_queue_allocated_memory_bytes",
        "volcano_queue_allocated_scalar_resources",
        "volcano_queue_request_milli_cpu",
        "volcano_queue_request_scalar_resources",
        "volcano_queue_deserved_milli_cpu",
        "volcano_queue_deserved_scalar_resources",
        "volcano_queue_capacity_milli_cpu",
        "volcano_queue_capacity_memory_bytes",
        "volcano_queue_capacity_scalar_resources",
        "volcano_queue_share",
        "volcano_unschedule_task_count",
        "volcano_unschedule_job_count",
        "volcano_total_preemption_attempts",
        "volcano_pod_preemption_victims",
        "volcano_e2e_job_scheduling_duration",
        "volcano_e2e_job_scheduling_latency_milliseconds_bucket",
        "volcano_e2e_scheduling_latency_milliseconds_bucket",
        "process_resident_memory_bytes",
    ),
    "volcano-controllers": (
        "volcano_job_completed_phase_count",
        "volcano_job_failed_phase_count",
        "volcano_queue_pod_group_inqueue_count",
        "volcano_queue_pod_group_pending_count",
        "volcano_queue_pod_group_running_count",
        "volcano_queue_pod_group_unknown_count",
        "process_resident_memory_bytes",
    ),
    "activator": (
        "athanor_activator_requests_total",
        "athanor_activator_waiting_requests",
        "athanor_activator_held_seconds_bucket",
        "athanor_activator_starts_total",
        "athanor_activator_stops_total",
    ),
    "gateway": tuple(PROXY_METRICS),
    "dcgm-exporter": tuple(field for field, kind, _ in COUNTERS if kind != "label"),
    "kubelet": (
        "kubelet_running_pods",
        "kubelet_volume_stats_available_bytes",
        "kubelet_volume_stats_capacity_bytes",
        "kubelet_volume_stats_used_bytes",
        "kubelet_volume_stats_inodes",
        "kubelet_volume_stats_inodes_free",
    ),
    "cadvisor": (
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_network_receive_bytes_total",
        "container_network_transmit_bytes_total",
        "container_fs_reads_bytes_total",
        "container_fs_writes_bytes_total",
        "container_oom_events_total",
    ),
    "apiserver": (
        "apiserver_current_inflight_requests",
        "apiserver_storage_size_bytes",
        "process_resident_memory_bytes",
    ),
    "kube-state-metrics": (
        "kube_daemonset_status_desired_number_scheduled",
        "kube_daemonset_status_number_ready",
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas_available",
        "kube_node_labels",
        "kube_node_status_allocatable",
        "kube_node_status_condition",
        "kube_pod_container_resource_requests",
        "kube_pod_container_status_last_terminated_reason",
        "kube_pod_container_status_restarts_total",
        "kube_pod_container_status_waiting_reason",
        "kube_pod_created",
        "kube_pod_info",
        "kube_pod_labels",
        "kube_pod_start_time",
        "kube_pod_status_phase",
        "kube_pod_status_ready",
        "kube_pod_status_unschedulable",
        "kube_resourcequota",
        "kube_statefulset_replicas",
        "kube_statefulset_status_replicas_ready",
    ),
    "node-exporter": (
        "node_cpu_seconds_total",
        "node_disk_io_time_seconds_total",
        "node_filesystem_avail_bytes",
        "node_filesystem_files",
        "node_filesystem_files_free",
        "node_filesystem_readonly",
        "node_filesystem_size_bytes",
        "node_infiniband_link_downed_total",
        "node_infiniband_port_data_received_bytes_total",
        "node_infiniband_port_data_transmitted_bytes_total",
        "node_infiniband_port_receive_errors_total",
        "node_load1",
        "node_memory_MemAvailable_bytes",
        "node_memory_MemTotal_bytes",
        "node_network_receive_bytes_total",
        "node_network_receive_errs_total",
        "node_network_transmit_bytes_total",
        "node_network_transmit_errs_total",
        "node_vmstat_oom_kill",
    ),
    "prometheus": (
        "prometheus_config_last_reload_successful",
        "prometheus_notifications_dropped_total",
        "prometheus_rule_evaluation_failures_total",
        "prometheus_rule_group_interval_seconds",
        "prometheus_rule_group_last_duration_seconds",
        "prometheus_tsdb_head_series",
        "prometheus_tsdb_storage_blocks_bytes",
        "process_resident_memory_bytes",
    ),
    "alertmanager": (
        "alertmanager_config_last_reload_successful",
        "alertmanager_notifications_failed_total",
        "process_resident_memory_bytes",
    ),
    "prometheus-operator": (
        "prometheus_operator_reconcile_errors_total",
        "prometheus_operator_managed_resources",
        "process_resident_memory_bytes",
    ),
    "victoria-logs": (
        "vl_data_size_bytes",
        "vl_rows_dropped_total",
        "vl_rows_ingested_total",
        "vl_storage_is_read_only",
        "process_resident_memory_bytes",
    ),
    "vlagent": (
        "vlagent_remotewrite_pending_data_bytes",
        "vlagent_remotewrite_packets_dropped_total",
        "process_resident_memory_bytes",
    ),
}
"""Exact names by the value of Prometheus's label `job`."""
