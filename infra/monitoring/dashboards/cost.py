"""The dashboard of cost: GPU-hours and money by team and by job, and the cost of idle GPUs. A team is a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.cost import PRICES
from infra.monitoring.dashboards.board import RUNBOOKS, Board, Section
from infra.monitoring.dashboards.gpu_money import CURRENCY, HELD, MONEY, OF_A_GPU, PRICE, so_far
from infra.monitoring.dashboards.panels import RATIO, Look, Text, bars, number, over_time, rows
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


UID = "athanor-cost"


def board() -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Cost of GPUs",
        about=f"GPU-hours and their cost in {CURRENCY} by team (queue) and job, and the cost of idle GPUs. {PRICES}",
        entries=(PRICE, RUNBOOKS),
        time_range=("now-7d", "now"),
        sections=(_now(), _teams(), _jobs(), section()),
    )


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            _gpus_cost_per_hour(),
            _allocated_to_pods_per_hour(),
            _idle_per_hour(),
            _gpus_without_a_list_price(),
            _gpu_hours_in_the_time_range(),
            _cost_in_the_time_range(),
        ),
    )


def _gpus_cost_per_hour() -> Panel:
    return number(
        "GPUs cost per hour",
        f"sum(node:gpus_allocatable:sum * on (node) group_left () {OF_A_GPU})",
        Text(
            asks="What do all running GPU nodes cost per hour?",
            when_bad="More than planned: a pool does not scale down; see the GPUs that are not allocated.",
        ),
        Look(unit=MONEY),
    )


def _allocated_to_pods_per_hour() -> Panel:
    return number(
        "Allocated to pods, per hour",
        f"sum({HELD})",
        Text(
            asks="How much of that is allocated to pods?", when_bad="Far below the cost of all GPUs: nodes are empty."
        ),
        Look(unit=MONEY),
    )


def _idle_per_hour() -> Panel:
    return number(
        "Idle, per hour",
        f"sum({IDLE_SHARE} * on (node) group_left () {OF_A_GPU})",
        Text(
            asks="What do GPUs cost that pods hold and do not use?",
            when_bad="The table of idle GPUs shows who holds them.",
        ),
        Look(unit=MONEY),
    )


def _gpus_without_a_list_price() -> Panel:
    return number(
        "GPUs without a list price",
        f"sum(node:gpus_allocatable:sum unless on (node) {NODE_PRICE}) or vector(0)",
        Text(
            asks="How many GPUs have no list price?",
            when_bad="Enter their price at the top; by default they cost 0.",
        ),
    )


def _gpu_hours_in_the_time_range() -> Panel:
    return number(
        "GPU-hours in the time range",
        f"sum({so_far('sum by (queue) (queue:gpus_allocated:sum)')})",
        Text(asks="How many GPU-hours were allocated?", when_bad="Compare with the teams' budgets below."),
        Look(unit=units.NoUnit, decimals=1),
    )


def _cost_in_the_time_range() -> Panel:
    return number(
        "Cost in the time range",
        f"sum({so_far(f'sum by (queue) ({HELD})')})",
        Text(
            asks="What did the allocated GPUs cost?",
            when_bad="See the costs by team and by job below. They use list prices: your bill may differ.",
        ),
        Look(unit=MONEY),
    )


def _teams() -> Section:
    return Section(
        title="By team",
        panels=(
            _gpu_hours_by_team(),
            _cost_by_team(),
            _gpu_hours_per_hour_by_team(),
            _gpus_busy_by_team(),
        ),
    )


def _gpu_hours_by_team() -> Panel:
    return bars(
        "GPU-hours by team",
        {"{{queue}}": so_far("sum by (queue) (queue:gpus_allocated:sum)")},
        Text(asks="How many GPU-hours did each team hold?", when_bad="Give its queue a limit, or a larger share."),
        Look(unit=units.NoUnit, decimals=1),
    )


def _cost_by_team() -> Panel:
    return bars(
        "Cost by team",
        {"{{queue}}": so_far(f"sum by (queue) ({HELD})")},
        Text(
            asks="What did each team's GPUs cost? Unlike GPU-hours, this weights GPUs by price.",
            when_bad="Check whether the team needs this GPU model.",
        ),
        Look(unit=MONEY),
    )


def _gpu_hours_per_hour_by_team() -> Panel:
    return over_time(
        "GPU-hours per hour by team",
        {"{{queue}}": "queue:gpu_hours:increase1h"},
        Text(
            asks="When did each team hold GPUs?",
            when_bad="Flat around the clock: something may run unattended.",
        ),
        Look(stacked=True),
    )


def _gpus_busy_by_team() -> Panel:
    return over_time(
        "GPUs busy by team",
        {"{{queue}}": 'avg by (queue) (gpu:busy:ratio{queue!=""})'},
        Text(
            asks="How busy are the GPUs that each team holds?",
            when_bad="Low: the dashboards of its jobs show what they wait for.",
        ),
        RATIO,
    )


def _jobs() -> Section:
    return Section(
        title="By job",
        panels=(
            _most_expensive_jobs_and_services(),
            _gpu_hours_per_hour_by_job(),
        ),
    )


def _most_expensive_jobs_and_services() -> Panel:
    by = "namespace, workload, queue"
    return rows(
        "Most expensive jobs and services",
        most(20, so_far(f"sum by ({by}) ({HELD})")),
        {"namespace": "namespace", "workload": "workload", "queue": "team", "Value": "cost"},
        Text(
            asks="What did each job and service cost in the time range? Shows the twenty most expensive.",
            when_bad="Check whether it was worth it: its dashboard shows how busy its GPUs were.",
        ),
        Look(unit=MONEY),
    )


def _gpu_hours_per_hour_by_job() -> Panel:
    return over_time(
        "GPU-hours per hour by job",
        {"{{namespace}}/{{workload}}": most(10, "workload:gpu_hours:increase1h")},
        Text(asks="Which jobs and services hold the most GPUs?", when_bad="Stop those that should have ended."),
        Look(stacked=True),
    )
