"""The row about speed of a job's dashboard: how fast is it, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Limits, Look, Text, over_time
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
