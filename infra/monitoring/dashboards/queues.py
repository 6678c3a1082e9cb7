"""The dashboard of queues: waiting jobs, waiting times and their causes, and queues above their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import queue_shares
from infra.monitoring.dashboards.board import Board, Section
from infra.monitoring.dashboards.panels import ONE_RATIO, Limits, Look, Panel, Text, bars, number, over_time, rows
from infra.monitoring.dashboards.promql import NOT_ROOT, most

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, QueueThresholds

UID = "athanor-queues"


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Queues",
        about="Who waits for resources, for how long and why, and whether every queue gets its share.",
        sections=(_now(), _waiting(thresholds.queues), queue_shares.fairness(), queue_shares.reclaiming()),
    )


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            _pods_waiting(),
            _unschedulable_jobs(),
            _gpus_in_use(),
            _share_of_gpus_in_use(),
            _queues_above_their_share(),
            _typical_wait(),
        ),
    )


def _pods_waiting() -> Panel:
    return number(
        "Pods waiting",
        "sum(queue:pods_pending:sum)",
        Text(asks="How many pods are waiting?", when_bad="The reasons below show what they wait for."),
    )


def _unschedulable_jobs() -> Panel:
    return number(
        "Unschedulable jobs",
        "max(volcano_unschedule_job_count)",
        Text(
            asks="How many jobs could Volcano not schedule in its last cycle?",
            when_bad="make why JOB=… names what is missing for each.",
        ),
    )


def _gpus_in_use() -> Panel:
    return number(
        "GPUs in use",
        "sum(queue:gpus_allocated:sum)",
        Text(
            asks="How many GPUs do the queues use?",
            when_bad="Few while pods wait: the free GPUs are fragmented, or a queue has reached its limit.",
        ),
    )


def _share_of_gpus_in_use() -> Panel:
    return number(
        "Share of GPUs in use",
        "sum(queue:gpus_allocated:sum) / sum(node:gpus_allocatable:sum)",
        Text(
            asks="What share of the GPUs do the queues use?",
            when_bad="At 100%, jobs beyond their queue's share wait: add nodes, or be patient.",
        ),
        ONE_RATIO,
    )


def _queues_above_their_share() -> Panel:
    return number(
        "Queues above their share",
        f"sum(volcano_queue_share{{{NOT_ROOT}}} > bool 1)",
        Text(
            asks="How many queues use more than their share, borrowed from others?",
            when_bad="This is normal: the lending queue reclaims its share when it needs it.",
        ),
    )


def _typical_wait() -> Panel:
    return number(
        "Typical wait",
        "max(queue:wait_seconds:p50)",
        Text(
            asks="What is the median wait in the slowest queue?",
            when_bad="See below which queue it is, and whether it waits for its share or for more than that.",
        ),
        Look(unit=units.Seconds),
    )


def _waiting(thresholds: QueueThresholds) -> Section:
    return Section(
        title="Waiting",
        panels=(
            _wait_until_scheduled(thresholds),
            _pods_waiting_by_queue(),
            _why_pods_wait(),
            _longest_waits(),
            _jobs_by_state(),
            _unschedulable_pods_by_job(),
        ),
    )


def _wait_until_scheduled(thresholds: QueueThresholds) -> Panel:
    limits = Limits(doubtful=thresholds.pending_seconds / 2, bad=thresholds.pending_seconds)
    return over_time(
        "Wait until scheduled",
        {
            "{{queue}}, median": "queue:wait_seconds:p50",
            "{{queue}}, 90th percentile": "queue:wait_seconds:p90",
        },
        Text(
            asks="How long do jobs wait from their creation until they are scheduled?",
            when_bad="Rising in one queue: its share is too small for its work. Rising in all: there are too few "
            "nodes.",
        ),
        Look(unit=units.Seconds, limits=limits),
    )


def _pods_waiting_by_queue() -> Panel:
    return over_time(
        "Pods waiting by queue",
        {"{{queue}}": "queue:pods_pending:sum"},
        Text(asks="Which queues have waiting pods?", when_bad="Compare with the queues' shares below."),
        Look(stacked=True),
    )


def _why_pods_wait() -> Panel:
    return over_time(
        "Why pods wait",
        {
            "no room for the job as a whole": "sum(kube_pod_status_unschedulable)",
            "on the node: {{reason}}": "sum by (reason) (kube_pod_container_status_waiting_reason) > 0",
            "no pods yet: over the namespace's quota": "sum(volcano_queue_pod_group_pending_count)",
        },
        Text(
            asks="What do pods wait for?",
            when_bad="No room: add nodes, make jobs smaller, or wait. ImagePullBackOff: check the image's name and its "
            "pull secret. ContainerCreating for long: check the volume. Quota: raise it, or stop other work.",
        ),
        Look(stacked=True),
    )


def _longest_waits() -> Panel:
    pending = 'kube_pod_status_phase{phase="Pending"} == 1'
    workload = "max by (namespace, pod, workload, queue) (namespace_pod:workload:info)"
    return rows(
        "Longest waits",
        most(
            20,
            "max by (namespace, workload, queue) ((time() - kube_pod_created)"
            f" * on (namespace, pod) group_left () ({pending})"
            f" * on (namespace, pod) group_left (workload, queue) {workload})",
        ),
        {"namespace": "namespace", "workload": "workload", "queue": "queue", "Value": "waits for"},
        Text(asks="Which jobs and services have waited longest?", when_bad="Run make why JOB=… for the first of them."),
        Look(unit=units.Seconds),
    )


def _jobs_by_state() -> Panel:
    return over_time(
        "Jobs by state",
        {
            "{{queue_name}} waiting": "volcano_queue_pod_group_inqueue_count > 0",
            "{{queue_name}} running": "volcano_queue_pod_group_running_count > 0",
            "{{queue_name}} lost pods": "volcano_queue_pod_group_unknown_count > 0",
        },
        Text(
            asks="How many jobs of each queue are running and waiting?",
            when_bad="Lost pods for long: a node is gone and the job waits for it; see the dashboard of the cluster.",
        ),
    )


def _unschedulable_pods_by_job() -> Panel:
    return bars(
        "Unschedulable pods by job",
        {"{{job_id}}": most(15, "max by (job_id) (volcano_unschedule_task_count) > 0")},
        Text(
            asks="How many pods of each job cannot be scheduled?",
            when_bad="A few of many: a little capacity is missing. All: no node has what one pod requests.",
        ),
    )
