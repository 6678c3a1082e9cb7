"""The row of a job's dashboard about speed and bottlenecks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, over_time
from infra.monitoring.dashboards.promql import WORKLOAD, mean, most
from infra.monitoring.rules.training import STRAGGLING, waited_for

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import TrainingThresholds


def section(thresholds: TrainingThresholds) -> Section:
    """Return the row."""
    return Section(
        title="Speed",
        panels=(
            _throughput(),
            _time_per_step(),
            _share_of_a_step_spent_waiting_for_data(),
            _data_wait_of_the_slowest_ranks(),
            _own_time_per_step_of_the_slowest_ranks(),
            _straggler(thresholds),
            _slowest_rank_over_time(thresholds),
            _mfu_over_time(),
            _memory_peak_of_ranks(),
        ),
    )


def _throughput() -> Panel:
    return over_time(
        "Throughput",
        {"samples per second": f"max(workload:samples_per_second:sum{{{WORKLOAD}}})"},
        Text(
            asks="Is it as fast as at the start?",
            when_bad="A lasting drop: a straggler, a slower node, or other load on the volume.",
        ),
    )


def _time_per_step() -> Panel:
    return over_time(
        "Time per step",
        {
            "median": f"max(workload:step_seconds:p50{{{WORKLOAD}}})",
            "99th percentile": f"max(workload:step_seconds:p99{{{WORKLOAD}}})",
        },
        Text(
            asks="Do all steps take the same time?",
            when_bad="A far higher 99th percentile: checkpoints, evaluation or data loading interrupt it from time to "
            "time.",
        ),
        Look(unit=units.Seconds),
    )


def _share_of_a_step_spent_waiting_for_data() -> Panel:
    return over_time(
        "Share of a step spent waiting for data",
        {"of the time": f"max(workload:data_wait:ratio{{{WORKLOAD}}})"},
        Text(
            asks="Does the GPU wait for its data?",
            when_bad="Above 10%: use more loader processes, a faster volume, or data closer to the node.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.1, bad=0.3)),
    )


def _data_wait_of_the_slowest_ranks() -> Panel:
    return over_time(
        "Data wait of the slowest ranks",
        {"rank {{rank}}": most(10, mean("athanor_training_data_wait_seconds", by="rank"))},
        Text(
            asks="Do some ranks wait longer for data than others?",
            when_bad="A single rank: check its node's disk and network, and its shard of the data.",
        ),
        Look(unit=units.Seconds),
    )


def _own_time_per_step_of_the_slowest_ranks() -> Panel:
    own = mean("athanor_training_own_seconds", by="rank")
    return over_time(
        "Own time per step of the slowest ranks",
        {"rank {{rank}}": most(10, own)},
        Text(
            asks="Which ranks do the others wait for? The time in each step until a rank has its own gradients: "
            "data, forward and backward pass, without the wait for other ranks.",
            when_bad="A single rank: check its node, and its GPU's clock and temperature on the dashboard of the "
            "cluster.",
        ),
        Look(unit=units.Seconds),
    )


def _straggler(thresholds: TrainingThresholds) -> Panel:
    bad = waited_for(thresholds.straggler_factor)
    return over_time(
        "Straggler",
        {"of a step": f"max({STRAGGLING}{{{WORKLOAD}}})"},
        Text(
            asks="How much of a step do the other ranks spend waiting for the slowest one?",
            when_bad="See the runbook TrainingStraggler: find the rank's node, and what is wrong with it.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=bad / 2, bad=bad)),
    )


def _slowest_rank_over_time(thresholds: TrainingThresholds) -> Panel:
    bad = thresholds.straggler_factor
    return over_time(
        "Slowest rank next to the median",
        {"{{run}}": f"max by (run) (athanor_training_slowest_rank_ratio{{{WORKLOAD}}})"},
        Text(
            asks="How many times as long as the median does the slowest rank take for its own part of a step?",
            when_bad="Lastingly above 1.3: one node is slow. An event slow_rank names the rank, its pod and its node.",
        ),
        Look(limits=Limits(doubtful=(1 + bad) / 2, bad=bad)),
    )


def _mfu_over_time() -> Panel:
    return over_time(
        "MFU over time",
        {"of the peak": f"max(athanor_training_mfu{{{WORKLOAD}}})"},
        Text(
            asks="How much of what its GPUs can compute does the model use?",
            when_bad="A lasting drop, or less than other runs of this model: compare the share of a step spent waiting "
            "for data, and the slowest rank.",
        ),
        RATIO,
    )


def _memory_peak_of_ranks() -> Panel:
    return over_time(
        "Memory peak of ranks",
        {"rank {{rank}}": most(10, f"max by (rank) (athanor_training_memory_peak_bytes{{{WORKLOAD}}})")},
        Text(
            asks="Is there memory left for a larger batch, and do some ranks need more than others?",
            when_bad="Rising from epoch to epoch: something keeps tensors. Uneven: the stages of a pipeline.",
        ),
        Look(unit=units.BytesIEC),
    )
