"""Rules about queues: waiting jobs, waiting times, and the limits that jobs wait at.

Metrics: Volcano 1.14.1, pkg/scheduler/metrics; kube-state-metrics, docs/metrics/workload/resourcequota-metrics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.pods import in_phase, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alert_thresholds import QueueThresholds


def area(limits: QueueThresholds) -> Area:
    """Return the rules of queues."""
    return Area(name="queues", recordings=_recordings(), alerts=_alerts(limits))


def _recordings() -> Sequence[Recording]:
    pending = of_workload(f"max by (namespace, pod) {in_phase('Pending')}")
    # The plugin `capacity` reports this for every queue; no job waits in root.
    queues = _by_queue('volcano_queue_deserved_milli_cpu{queue_name!="root"}', "queue")
    return (
        Recording(
            record="queue:pods_pending:sum",
            expr=f"sum by (queue) ({pending}) or on (queue) 0 * {queues}",
        ),
        *(
            Recording(
                record=f"queue:wait_seconds:p{percent}",
                expr=f"quantile by (queue) ({percent / 100:g}, volcano_e2e_job_scheduling_duration / 1000)",
            )
            for percent in (50, 90)
        ),
        Recording(record="queue:capacity_used:ratio", expr=_capacity_used()),
    )


def _by_queue(series: str, labels: str) -> str:
    """Return a metric of Volcano under the label that all other rules have for a queue."""
    return f'max by ({labels}) (label_replace({series}, "queue", "$1", "queue_name", "(.*)"))'


def _capacity_used() -> str:
    """Return the used share of each queue's hard limits, by resource; one without a limit has none."""

    def used(suffix: str, labels: str) -> str:
        allocated = _by_queue(f"volcano_queue_allocated_{suffix}", labels)
        return f"{allocated} / ({_by_queue(f'volcano_queue_capacity_{suffix}', labels)} > 0)"

    cpu = f'label_replace({used("milli_cpu", "queue")}, "resource", "cpu", "", "")'
    memory = f'label_replace({used("memory_bytes", "queue")}, "resource", "memory", "", "")'
    return f"({used('scalar_resources', 'queue, resource')}) or {cpu} or {memory}"


def _alerts(limits: QueueThresholds) -> Sequence[Alert]:
    waited = f"time() - max by (namespace, pod) (kube_pod_created) and on (namespace, pod) {in_phase('Pending')}"
    waits = f"max by (namespace, workload, queue) ({of_workload(waited)})"
    return (
        Alert(
            name="GangPending",
            expr=f"{waits} > {limits.pending_seconds}",
            for_seconds=limits.pending_for_seconds,
            severity="ticket",
            summary="{{ $labels.namespace }}/{{ $labels.workload }} has been waiting for {{ $value | humanizeDuration "
            "}}",
            description="Some of its pods lack a node, image or volume: `make why JOB={{ $labels.workload }}` shows "
            "which.",
        ),
        Alert(
            name="GangNotAdmitted",
            expr=f"{_by_queue('volcano_queue_pod_group_pending_count', 'queue')} > 0",
            for_seconds=limits.pending_seconds,
            severity="ticket",
            summary="{{ $value }} jobs of queue {{ $labels.queue }} have no pods yet",
            description="With the jobs that already wait, they would exceed the namespace's quota. See `make status`.",
        ),
        Alert(
            name="JobOverlooked",
            expr=f"{_by_queue('volcano_queue_pod_group_inqueue_count', 'queue')} > 0 unless on (queue) "
            "queue:pods_pending:sum > 0",
            for_seconds=limits.overlooked_for_seconds,
            severity="ticket",
            summary="{{ $value }} jobs of queue {{ $labels.queue }} are admitted, and nobody creates their pods",
            description="Volcano's controller has overlooked them: `make why` names the job, and the runbook how it "
            "starts.",
        ),
        Alert(
            name="QuotaExhausted",
            expr=f"""
                max by (namespace, resourcequota, resource) (kube_resourcequota{{type="used"}})
                / (max by (namespace, resourcequota, resource) (kube_resourcequota{{type="hard"}}) > 0)
                >= {limits.quota_used_ratio:g}""",
            for_seconds=limits.quota_for_seconds,
            severity="ticket",
            summary="The quota of {{ $labels.resource }} in namespace {{ $labels.namespace }} is exhausted",
            description="{{ $value | humanizePercentage }} of the quota is used: what exceeds it is rejected.",
        ),
        Alert(
            name="QueueAtLimit",
            expr=f"""
                max by (queue, resource) (queue:capacity_used:ratio) >= {limits.quota_used_ratio:g}
                and on (queue) queue:pods_pending:sum > 0""",
            for_seconds=limits.quota_for_seconds,
            severity="ticket",
            summary="Queue {{ $labels.queue }} has reached its limit of {{ $labels.resource }}, and jobs are waiting "
            "in it",
            description="They wait for other jobs of the queue to end, even if the cluster is idle. Raise the limit, "
            "or let them wait.",
        ),
    )
