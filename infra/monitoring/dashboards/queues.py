"""Queues: who waits, for how long and why; who uses more than its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.gpu.sharing import GPU_RESOURCE
from infra.monitoring.dashboards.board import Board, Section
from infra.monitoring.dashboards.panels import Limits, Look, Panel, Text, bars, number, over_time, rows
from infra.monitoring.dashboards.promql import most, quantile

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, QueueThresholds

UID = "athanor-queues"
# Volcano counts root, above all queues, as one; and GPUs, like all resources by name, in thousandths.
_REAL = '{queue_name!="root"}'
_GPUS = f'{{resource="{GPU_RESOURCE}", queue_name!="root"}} / 1000'
_CPU = f"{_REAL} / 1000"


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Queues",
        about="Who waits for resources, for how long and why, and whether every queue gets its share.",
        sections=(_now(), _waiting(thresholds.queues), _fairness(), _taking_back()),
    )


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            number(
                "Pods waiting",
                "sum(queue:pods_pending:sum)",
                Text(asks="How many pods wait?", when_bad="The reasons below say what they wait for."),
            ),
            number(
                "Jobs that fit nowhere",
                "max(volcano_unschedule_job_count)",
                Text(
                    asks="How many jobs could Volcano not place in its last round?",
                    when_bad="make why JOB=… names what is missing for each.",
                ),
            ),
            number(
                "GPUs in use",
                "sum(queue:gpus_allocated:sum)",
                Text(asks="How many GPUs do the queues use?", when_bad="Few while pods wait: crumbs, or a hard limit."),
            ),
            number(
                "Share of GPUs in use",
                "sum(queue:gpus_allocated:sum) / sum(node:gpus_allocatable:sum)",
                Text(asks="Is there room at all?", when_bad="At 1 while queues wait beyond their share: buy or wait."),
                Look(unit=units.PercentUnit, most=1),
            ),
            number(
                "Queues above their share",
                f"sum(volcano_queue_share{_REAL} > bool 1)",
                Text(
                    asks="How many queues use what others lent them?",
                    when_bad="No fault: they lose it as soon as the lender wants it back.",
                ),
            ),
            number(
                "Typical wait",
                "max(queue:wait_seconds:p50)",
                Text(
                    asks="How long did half of the jobs wait at most, in the slowest queue?",
                    when_bad="See which queue below, and whether it waits for its share or for more than that.",
                ),
                Look(unit=units.Seconds),
            ),
        ),
    )


def _waiting(thresholds: QueueThresholds) -> Section:
    limits = Limits(doubtful=thresholds.pending_seconds / 2, bad=thresholds.pending_seconds)
    pending = 'kube_pod_status_phase{phase="Pending"} == 1'
    workload = "max by (namespace, pod, workload, queue) (namespace_pod:workload:info)"
    return Section(
        title="Waiting",
        panels=(
            over_time(
                "Wait until placed",
                {
                    "{{queue}}, half waited less": "queue:wait_seconds:p50",
                    "{{queue}}, 9 of 10 waited less": "queue:wait_seconds:p90",
                },
                Text(
                    asks="How long do jobs wait from their creation until they are placed?",
                    when_bad="Rising in one queue: its share is too small for its work. In all: too few nodes.",
                ),
                Look(unit=units.Seconds, limits=limits),
            ),
            over_time(
                "Pods waiting by queue",
                {"{{queue}}": "queue:pods_pending:sum"},
                Text(asks="Whose work waits?", when_bad="Compare with the queue's share below."),
                Look(stacked=True),
            ),
            over_time(
                "Why pods wait",
                {
                    "no room for the job as a whole": "sum(kube_pod_status_unschedulable)",
                    "on its node: {{reason}}": "sum by (reason) (kube_pod_container_status_waiting_reason) > 0",
                    "without pods: over the namespace's quota": "sum(volcano_queue_pod_group_pending_count)",
                },
                Text(
                    asks="What do they wait for?",
                    when_bad="No room: more nodes, smaller jobs, or patience. ImagePullBackOff: the image's name or "
                    "its secret. ContainerCreating for long: the volume. Quota: raise it, or end something.",
                ),
                Look(stacked=True),
            ),
            rows(
                "Longest waits",
                most(
                    20,
                    "max by (namespace, workload, queue) ((time() - kube_pod_created)"
                    f" * on (namespace, pod) group_left () ({pending})"
                    f" * on (namespace, pod) group_left (workload, queue) {workload})",
                ),
                {"namespace": "namespace", "workload": "workload", "queue": "queue", "Value": "waits for"},
                Text(asks="Who waits longest now?", when_bad="make why JOB=… for the first of them."),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Jobs by state",
                {
                    "{{queue_name}} waits for room": "volcano_queue_pod_group_inqueue_count > 0",
                    "{{queue_name}} runs": "volcano_queue_pod_group_running_count > 0",
                    "{{queue_name}} lost pods": "volcano_queue_pod_group_unknown_count > 0",
                },
                Text(
                    asks="How many jobs of each queue run and wait?",
                    when_bad="Lost pods for long: a node is gone, and the job waits for it; see the cluster.",
                ),
            ),
            bars(
                "Pods without a place, by job",
                {"{{job_id}}": most(15, "max by (job_id) (volcano_unschedule_task_count) > 0")},
                Text(
                    asks="Which jobs have how many pods that fit nowhere?",
                    when_bad="One pod of many: a crumb is missing. All: no node has what one pod asks for.",
                ),
            ),
        ),
    )


def _fairness() -> Section:
    return Section(
        title="Fairness",
        panels=(
            _share("GPUs", "GPUs of each queue", "_scalar_resources" + _GPUS),
            bars(
                "GPUs used of the share",
                {
                    "{{queue_name}}": f"volcano_queue_allocated_scalar_resources{_GPUS}"
                    f" / on (queue_name) (volcano_queue_deserved_scalar_resources{_GPUS} > 0)"
                },
                Text(
                    asks="Which queue uses how much of what it deserves? 1 is all of its share.",
                    when_bad="One far above 1 while another waits below 1: taking back does not work; maybe its "
                    "queue is not reclaimable.",
                ),
                Look(unit=units.PercentUnit),
            ),
            _share("CPU cores", "CPU of each queue", "_milli_cpu" + _CPU),
            bars(
                "CPU used of the share",
                {
                    "{{queue_name}}": f"volcano_queue_allocated_milli_cpu{_REAL}"
                    f" / on (queue_name) (volcano_queue_deserved_milli_cpu{_REAL} > 0)"
                },
                Text(
                    asks="Which queue uses how much of its CPU? That is what clusters without GPUs share out.",
                    when_bad="As for GPUs.",
                ),
                Look(unit=units.PercentUnit),
            ),
            over_time(
                "Dominant share",
                {"{{queue_name}}": f"volcano_queue_share{_REAL}"},
                Text(
                    asks="How does Volcano itself rank the queues? By what they use most of, as part of what they "
                    "deserve; it serves the lowest first.",
                    when_bad="Far apart for hours while the lowest waits: its jobs fit nowhere, whatever their turn.",
                ),
            ),
            over_time(
                "Used of the hard limit",
                {"{{queue}} {{resource}}": "queue:capacity_used:ratio"},
                Text(
                    asks="Which queue has reached what it may use at most?",
                    when_bad="At 1 its jobs wait whatever room there is: raise maximum_percent, or let it wait.",
                ),
                Look(unit=units.PercentUnit, limits=Limits(doubtful=0.9, bad=1)),
            ),
        ),
    )


def _share(what: str, title: str, suffix: str) -> Panel:
    return over_time(
        title,
        {
            "{{queue_name}} uses": f"volcano_queue_allocated{suffix}",
            "{{queue_name}} deserves": f"volcano_queue_deserved{suffix}",
            "{{queue_name}} asks for": f"volcano_queue_request{suffix}",
        },
        Text(
            asks=f"How many {what} does each queue use, deserve and ask for? What it deserves holds its guarantee.",
            when_bad="It asks for more than it uses and uses less than it deserves: others hold its share and do not "
            "give it back; see the last row.",
        ),
    )


def _taking_back() -> Section:
    return Section(
        title="Taking back and placing",
        panels=(
            over_time(
                "Attempts to take back",
                {"attempts per second": "sum(rate(volcano_total_preemption_attempts[$__rate_interval]))"},
                Text(
                    asks="Is work being stopped for other work?",
                    when_bad="For ever without effect: what is wanted cannot be had by stopping anything.",
                ),
            ),
            over_time(
                "Pods picked to be stopped",
                {"pods": "max(volcano_pod_preemption_victims)"},
                Text(
                    asks="How many pods did the last attempt pick?",
                    when_bad="Many, again and again: jobs take turns instead of running; give queues limits.",
                ),
            ),
            over_time(
                "Jobs placed",
                {
                    "jobs per second": "sum(rate("
                    'volcano_e2e_job_scheduling_latency_milliseconds_bucket{le="+Inf"}[$__rate_interval]))'
                },
                Text(
                    asks="Does Volcano place jobs?",
                    when_bad="None while jobs wait and there is room: see its log.",
                ),
                Look(unit=units.CountsPerSecond),
            ),
            over_time(
                "Time to place a job",
                {
                    "half are faster": quantile(0.5, "volcano_e2e_job_scheduling_latency_milliseconds", matchers=""),
                    "99 of 100 are faster": quantile(
                        0.99, "volcano_e2e_job_scheduling_latency_milliseconds", matchers=""
                    ),
                },
                Text(
                    asks="How long does Volcano take to place a job, its wait included?",
                    when_bad="Seconds while there is room: look at Volcano's CPU and log.",
                ),
                Look(unit=units.Milliseconds),
            ),
        ),
    )
