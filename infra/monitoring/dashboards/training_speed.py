"""The row about speed of a job's dashboard: how fast is it, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Limits, Look, Text, over_time
from infra.monitoring.dashboards.promql import WORKLOAD, mean, most

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import TrainingThresholds


def section(thresholds: TrainingThresholds) -> Section:
    """Return the row."""
    factor = thresholds.straggler_factor
    own = mean("athanor_training_own_seconds", by="rank")
    return Section(
        title="Speed",
        panels=(
            over_time(
                "Throughput",
                {"samples per second": f"max(workload:samples_per_second:sum{{{WORKLOAD}}})"},
                Text(
                    asks="Is it as fast as it was?",
                    when_bad="A step down that stays: a straggler, a slower node, a neighbour on the volume.",
                ),
            ),
            over_time(
                "Time per step",
                {
                    "half are faster": f"max(workload:step_seconds:p50{{{WORKLOAD}}})",
                    "99 of 100 are faster": f"max(workload:step_seconds:p99{{{WORKLOAD}}})",
                },
                Text(
                    asks="Is a step always equally long?",
                    when_bad="A far higher second line: checkpoints, evaluation or data loading stop it now and then.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Share of a step that waits for data",
                {"of the time": f"max(workload:data_wait:ratio{{{WORKLOAD}}})"},
                Text(
                    asks="Does the GPU wait for its data?",
                    when_bad="Above a tenth: more loader processes, a faster volume, or data nearer to the node.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.1, bad=0.3)),
            ),
            over_time(
                "Data wait of the slowest ranks",
                {"rank {{rank}}": most(10, mean("athanor_training_data_wait_seconds", by="rank"))},
                Text(
                    asks="Do some ranks wait longer for data than others?",
                    when_bad="One alone: its node's disk or network, or its part of the data.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Own time per step of the slowest ranks",
                {"rank {{rank}}": most(10, own)},
                Text(
                    asks="Which ranks do the others wait for? Time of a step before the gradients meet.",
                    when_bad="One alone: its node; see its GPU's clock and temperature on the cluster's dashboard.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Straggler",
                {"slowest rank to the middle one": f"max({own}) / quantile(0.5, {own})"},
                Text(
                    asks="How far is the slowest rank behind?",
                    when_bad="Runbook of the straggler alert: find its node, and what is wrong with that.",
                ),
                Look(unit=units.NoUnit, decimals=2, limits=Limits(doubtful=(1 + factor) / 2, bad=factor)),
            ),
        ),
    )
