"""The rows of the queues' dashboard about shares: the use of each queue's own share, and reclaimed resources."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from infra.gpu.sharing import GPU_RESOURCE
from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Limits, Look, Panel, Text, bars, over_time
from infra.monitoring.dashboards.promql import NOT_ROOT, quantile

# Volcano reports GPUs, like all extended resources, in thousandths.
_GPUS = f'{{resource="{GPU_RESOURCE}", {NOT_ROOT}}} / 1000'
_CPU = f"{{{NOT_ROOT}}} / 1000"


def fairness() -> Section:
    """Return the row about the queues' shares."""
    return Section(
        title="Fairness",
        panels=(
            _gpus_of_each_queue(),
            _gpus_used_of_the_share(),
            _cpu_of_each_queue(),
            _cpu_used_of_the_share(),
            _dominant_share(),
            _use_of_the_hard_limit(),
        ),
    )


def _gpus_of_each_queue() -> Panel:
    return _share("GPUs", "GPUs of each queue", "_scalar_resources" + _GPUS)


def _gpus_used_of_the_share() -> Panel:
    return bars(
        "GPUs used of the share",
        {
            "{{queue_name}}": f"volcano_queue_allocated_scalar_resources{_GPUS}"
            f" / on (queue_name) (volcano_queue_deserved_scalar_resources{_GPUS} > 0)"
        },
        Text(
            asks="How much of its share does each queue use?",
            when_bad="One far above 100% while another waits below 100%: reclaiming does not work; the first queue may "
            "not be reclaimable.",
        ),
        Look(unit=units.PercentUnit),
    )


def _cpu_of_each_queue() -> Panel:
    return _share("CPU cores", "CPU of each queue", "_milli_cpu" + _CPU)


def _cpu_used_of_the_share() -> Panel:
    return bars(
        "CPU used of the share",
        {
            "{{queue_name}}": f"volcano_queue_allocated_milli_cpu{{{NOT_ROOT}}}"
            f" / on (queue_name) (volcano_queue_deserved_milli_cpu{{{NOT_ROOT}}} > 0)"
        },
        Text(
            asks="How much of its share of CPUs does each queue use? Clusters without GPUs divide these.",
            when_bad="As for GPUs.",
        ),
        Look(unit=units.PercentUnit),
    )


def _dominant_share() -> Panel:
    return over_time(
        "Dominant share",
        {"{{queue_name}}": f"volcano_queue_share{{{NOT_ROOT}}}"},
        Text(
            asks="How does Volcano rank the queues? By their dominant resource, as a share of what they deserve; the"
            " lowest is served first.",
            when_bad="Far apart for hours while the lowest waits: its jobs do not fit on any node, whatever their "
            "rank.",
        ),
    )


def _use_of_the_hard_limit() -> Panel:
    return over_time(
        "Use of the hard limit",
        {"{{queue}} {{resource}}": "queue:capacity_used:ratio"},
        Text(
            asks="Which queues have reached their limit?",
            when_bad="At 100% its jobs wait even if the cluster is idle: raise maximum_percent, or let them wait.",
        ),
        Look(unit=units.PercentUnit, limits=Limits(doubtful=0.9, bad=1)),
    )


def _share(what: str, title: str, suffix: str) -> Panel:
    return over_time(
        title,
        {
            "{{queue_name}} uses": f"volcano_queue_allocated{suffix}",
            "{{queue_name}} share": f"volcano_queue_deserved{suffix}",
            "{{queue_name}} requests": f"volcano_queue_request{suffix}",
        },
        Text(
            asks=f"How many {what} does each queue use and request, and what is its share, including its guarantee?",
            when_bad="It requests more than it uses and uses less than its share: other queues hold its share and are "
            "not reclaimed from; see the last row.",
        ),
    )


def reclaiming() -> Section:
    """Return the row about evictions in favour of other queues, and how long placing takes."""
    return Section(
        title="Preemption and scheduling",
        panels=(
            _preemption_attempts(),
            _preemption_victims(),
            _jobs_scheduled(),
            _time_to_schedule_a_job(),
        ),
    )


def _preemption_attempts() -> Panel:
    return over_time(
        "Preemption attempts",
        {"attempts per second": "sum(rate(volcano_total_preemption_attempts[$__rate_interval]))"},
        Text(
            asks="Are pods being preempted or reclaimed for other jobs?",
            when_bad="Constantly and without effect: evicting pods cannot free what the waiting job needs.",
        ),
    )


def _preemption_victims() -> Panel:
    return over_time(
        "Preemption victims",
        {"pods": "max(volcano_pod_preemption_victims)"},
        Text(
            asks="How many pods did the last attempt select for eviction?",
            when_bad="Many, repeatedly: jobs preempt each other instead of running; give queues limits.",
        ),
    )


def _jobs_scheduled() -> Panel:
    return over_time(
        "Jobs scheduled",
        {
            "jobs per second": "sum(rate("
            'volcano_e2e_job_scheduling_latency_milliseconds_bucket{le="+Inf"}[$__rate_interval]))'
        },
        Text(
            asks="Does Volcano schedule jobs?",
            when_bad="None while jobs wait and there is room: read its log.",
        ),
        Look(unit=units.CountsPerSecond),
    )


def _time_to_schedule_a_job() -> Panel:
    return over_time(
        "Time to schedule a job",
        {
            "median": quantile(0.5, "volcano_e2e_job_scheduling_latency_milliseconds", matchers=""),
            "99th percentile": quantile(0.99, "volcano_e2e_job_scheduling_latency_milliseconds", matchers=""),
        },
        Text(
            asks="How long does Volcano take to schedule a job, including its wait?",
            when_bad="Seconds while there is room: check Volcano's CPU use and its log.",
        ),
        Look(unit=units.Milliseconds),
    )
