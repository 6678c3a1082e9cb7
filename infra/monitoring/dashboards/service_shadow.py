"""The row of a service's dashboard about its shadow: differences of answers and times; empty without a shadow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Look, Text, over_time
from infra.monitoring.dashboards.promql import quantile, rate

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel


def shadow() -> Section:
    """Return the row that compares the answers of a shadow with the service's own."""
    return Section(title="Shadow", panels=(_answers(), _largest_difference(), _latency()))


def _answers() -> Panel:
    return over_time(
        "Answers of the shadow",
        {"{{outcome}} {{reason}}": f"sum by (outcome, reason) ({rate('athanor_shadow_requests')})"},
        Text(
            asks="Does the shadow answer as the service does?",
            when_bad="different: the log names requests; class is graver than value, and tensor means another shape or"
            " type. failed: read the shadow's log. dropped: give the shadow more replicas, or a smaller percent.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _largest_difference() -> Panel:
    return over_time(
        "Largest difference of an answer",
        {f"p{percent}": quantile(percent / 100, "athanor_shadow_difference") for percent in (50, 99)},
        Text(
            asks="How far are the values of the shadow's answers from the service's?",
            when_bad="More than the values of the model can differ without harm: do not promote it.",
        ),
    )


def _latency() -> Panel:
    by_server = quantile(0.99, "athanor_shadow_duration_seconds", "server")
    return over_time(
        "Latency of both",
        {"p99 {{server}}": by_server},
        Text(
            asks="Is the shadow as fast as the service, for the same requests?",
            when_bad="shadow above own: the model is slower, or its pods have less CPU. The network between the two is"
            " part of it.",
        ),
        Look(unit=units.Seconds),
    )
