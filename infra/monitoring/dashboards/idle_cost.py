"""The row of the cost dashboard about GPUs without work: their cost and their energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.gpu_money import MONEY, OF_A_GPU, so_far
from infra.monitoring.dashboards.panels import Look, Text, bars, over_time, rows
from infra.monitoring.dashboards.promql import most
from infra.monitoring.rules.gpu import IDLE_SHARE
from infra.monitoring.rules.prices import NODE_PRICE

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel


def section() -> Section:
    """Return the row."""
    return Section(
        title="Idle cost",
        panels=(
            _cost_per_hour_of_idle_gpus(),
            _idle_gpu_hours_by_team(),
            _idle_gpus_now(),
            _gpu_energy_by_team(),
            _price_of_a_gpu_hour_by_node(),
        ),
    )


def _cost_per_hour_of_idle_gpus() -> Panel:
    free = "(node:gpus_allocatable:sum - (node:gpus_allocated:sum or node:gpus_allocatable:sum * 0))"
    return over_time(
        "Cost per hour of idle GPUs",
        {
            "not allocated": f"sum({free} * on (node) group_left () {OF_A_GPU})",
            "allocated but idle": f"sum({IDLE_SHARE} * on (node) group_left () {OF_A_GPU})",
        },
        Text(
            asks="What do GPUs cost that do no work?",
            when_bad="Not allocated: let the pool scale down. Allocated but idle: see the next panel.",
        ),
        Look(unit=MONEY, stacked=True),
    )


def _idle_gpu_hours_by_team() -> Panel:
    return bars(
        "Idle GPU-hours by team",
        {"{{queue}}": so_far(f"sum by (queue) ({IDLE_SHARE})")},
        Text(
            asks="For how many GPU-hours did each team hold idle GPUs?",
            when_bad="Usually notebooks and crashed data loaders: set a time limit, or use shared GPUs.",
        ),
        Look(unit=units.NoUnit, decimals=1),
    )


def _idle_gpus_now() -> Panel:
    return rows(
        "Idle GPUs now",
        f"({IDLE_SHARE} > 0) * on (node) group_left () {OF_A_GPU}",
        {
            "queue": "team",
            "namespace": "namespace",
            "workload": "workload",
            "pod": "pod",
            "node": "node",
            "gpu": "GPU",
            "Value": "per hour",
        },
        Text(asks="Which pods hold idle GPUs now, and at what cost?", when_bad="Ask the team, or stop the pod."),
        Look(unit=MONEY),
    )


def _gpu_energy_by_team() -> Panel:
    return bars(
        "GPU energy by team",
        {
            "{{queue}}": "sum by (queue) (increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[$__range])"
            " * on (namespace, pod) group_left (queue)"
            " max by (namespace, pod, queue) (last_over_time(namespace_pod:workload:info[$__range]))) / 3.6e9"
        },
        Text(
            asks="How much energy did each team's GPUs use?",
            when_bad="Little energy for a high cost: the GPUs are idle, which still draws a fifth of the power.",
        ),
        Look(unit=units.KiloWattHour),
    )


def _price_of_a_gpu_hour_by_node() -> Panel:
    return bars(
        "Price of a GPU-hour by node",
        {"{{node}} {{instance_type}}": most(15, NODE_PRICE)},
        Text(
            asks="Which prices does this dashboard use?",
            when_bad="If your contract differs: the list prices are in infra/instance_types.py.",
        ),
        Look(unit=MONEY, decimals=2),
    )
