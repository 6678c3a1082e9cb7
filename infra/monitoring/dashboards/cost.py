"""Cost: GPU-hours and money by team and by job, and what is paid for nothing. A team is a queue."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from infra.cost import PRICES
from infra.monitoring.dashboards.board import RUNBOOKS, Board, Entry, Section
from infra.monitoring.dashboards.panels import RATIO, Look, Text, bars, number, over_time, rows
from infra.monitoring.dashboards.promql import most
from infra.monitoring.rules.prices import NODE_PRICE

UID = "athanor-cost"
CURRENCY = "CNY"
_MONEY = f"currency:{CURRENCY}"
"""Grafana's unit for a currency that has none of its own there."""
_PRICE = Entry(
    name="price",
    label=f"{CURRENCY} per GPU-hour without a list price",
    value="0",
    about="What an hour of a GPU costs whose instance type has no list price; 0 counts it as free.",
)
_OF_A_GPU = f"({NODE_PRICE} or on (node) node:gpus_allocatable:sum * 0 + ${_PRICE.name})"
_HELD = f"namespace_pod:gpus_allocated:sum * on (node) group_left () {_OF_A_GPU}"
"""What each pod's GPUs cost per hour."""


def board() -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Cost of GPUs",
        about=f"GPU-hours and their price in {CURRENCY} by team (queue) and job, and what brings nothing. {PRICES}",
        entries=(_PRICE, RUNBOOKS),
        time_range=("now-7d", "now"),
        sections=(_now(), _teams(), _jobs(), _waste()),
    )


def _so_far(per_hour: str) -> str:
    """Return the sum over the dashboard's time range of what is counted per hour, looked at every five minutes."""
    return f"sum_over_time(({per_hour})[$__range:5m]) / 12"


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            number(
                "GPUs cost per hour",
                f"sum(node:gpus_allocatable:sum * on (node) group_left () {_OF_A_GPU})",
                Text(
                    asks="What do the GPU nodes that are up cost per hour?",
                    when_bad="More than planned: a pool that does not shrink; see the GPUs that nobody has.",
                ),
                Look(unit=_MONEY),
            ),
            number(
                "Held by pods, per hour",
                f"sum({_HELD})",
                Text(
                    asks="How much of that do pods hold?", when_bad="Far below the panel beside it: nodes stand empty."
                ),
                Look(unit=_MONEY),
            ),
            number(
                "Idle, per hour",
                f"sum(gpu:allocated_idle:bool * on (node) group_left () {_OF_A_GPU})",
                Text(
                    asks="What do GPUs cost now that pods hold and do not use?",
                    when_bad="The table of idle GPUs names who holds them.",
                ),
                Look(unit=_MONEY),
            ),
            number(
                "GPUs without a list price",
                f"sum(node:gpus_allocatable:sum unless on (node) {NODE_PRICE}) or vector(0)",
                Text(
                    asks="How many GPUs does the list know no price of?",
                    when_bad="Type their price above: until then they count with that of the field, 0 at first.",
                ),
            ),
            number(
                "GPU-hours in the time range",
                f"sum({_so_far('sum by (queue) (queue:gpus_allocated:sum)')})",
                Text(asks="How many GPU-hours were held?", when_bad="Compare with the teams' budgets below."),
                Look(unit=units.NoUnit, decimals=1),
            ),
            number(
                "Cost in the time range",
                f"sum({_so_far(f'sum by (queue) ({_HELD})')})",
                Text(
                    asks="What did the GPUs that pods held cost?",
                    when_bad="By team and by job below. List prices: the bill decides.",
                ),
                Look(unit=_MONEY),
            ),
        ),
    )


def _teams() -> Section:
    return Section(
        title="By team",
        panels=(
            bars(
                "GPU-hours by team",
                {"{{queue}}": _so_far("sum by (queue) (queue:gpus_allocated:sum)")},
                Text(asks="Which team held how many GPU-hours?", when_bad="Give its queue a limit, or a larger share."),
                Look(unit=units.NoUnit, decimals=1),
            ),
            bars(
                "Cost by team",
                {"{{queue}}": _so_far(f"sum by (queue) ({_HELD})")},
                Text(
                    asks="What did each team's GPUs cost? Dearer GPUs count more than in the panel beside it.",
                    when_bad="Does it need that model of GPU? The pool's node labels decide.",
                ),
                Look(unit=_MONEY),
            ),
            over_time(
                "GPU-hours per hour by team",
                {"{{queue}}": "queue:gpu_hours:increase1h"},
                Text(
                    asks="When did which team hold GPUs?",
                    when_bad="Flat around the clock: something runs that nobody looks at.",
                ),
                Look(stacked=True),
            ),
            over_time(
                "GPUs busy by team",
                {"{{queue}}": 'avg by (queue) (gpu:busy:ratio{queue!=""})'},
                Text(
                    asks="Which team uses what it holds?", when_bad="Low: the jobs' dashboards tell what they wait for."
                ),
                RATIO,
            ),
        ),
    )


def _jobs() -> Section:
    by = "namespace, workload, queue"
    return Section(
        title="By job",
        panels=(
            rows(
                "Dearest jobs and services",
                most(20, _so_far(f"sum by ({by}) ({_HELD})")),
                {"namespace": "namespace", "workload": "workload", "queue": "team", "Value": "cost"},
                Text(
                    asks="What did each job and service cost in the time range? The twenty dearest.",
                    when_bad="Ask whether it was worth it: its dashboard shows how busy its GPUs were.",
                ),
                Look(unit=_MONEY),
            ),
            over_time(
                "GPU-hours per hour by job",
                {"{{namespace}}/{{workload}}": most(10, "workload:gpu_hours:increase1h")},
                Text(asks="Which jobs and services hold most?", when_bad="One that should have ended: end it."),
                Look(stacked=True),
            ),
        ),
    )


def _waste() -> Section:
    free = "(node:gpus_allocatable:sum - (node:gpus_allocated:sum or node:gpus_allocatable:sum * 0))"
    return Section(
        title="Paid for nothing",
        panels=(
            over_time(
                "Cost per hour of GPUs without work",
                {
                    "nobody has them": f"sum({free} * on (node) group_left () {_OF_A_GPU})",
                    "held and idle": f"sum(gpu:allocated_idle:bool * on (node) group_left () {_OF_A_GPU})",
                },
                Text(
                    asks="What do GPUs cost that compute nothing?",
                    when_bad="Nobody has them: let the pool shrink. Held and idle: the next panel.",
                ),
                Look(unit=_MONEY, stacked=True),
            ),
            bars(
                "Idle GPU-hours by team",
                {"{{queue}}": _so_far("sum by (queue) (gpu:allocated_idle:bool)")},
                Text(
                    asks="Which team held GPUs without using them, for how many GPU-hours?",
                    when_bad="Notebooks and crashed loaders are the usual ones: a time limit, or a shared GPU.",
                ),
                Look(unit=units.NoUnit, decimals=1),
            ),
            rows(
                "Idle GPUs now",
                f"(gpu:allocated_idle:bool == 1) * on (node) group_left () {_OF_A_GPU}",
                {
                    "queue": "team",
                    "namespace": "namespace",
                    "workload": "workload",
                    "pod": "pod",
                    "node": "node",
                    "gpu": "GPU",
                    "Value": "per hour",
                },
                Text(asks="Who holds idle GPUs now, and what do they cost?", when_bad="Ask them, or end it."),
                Look(unit=_MONEY),
            ),
            bars(
                "Energy of GPUs by team",
                {
                    "{{queue}}": "sum by (queue) (increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[$__range])"
                    " * on (namespace, pod) group_left (queue)"
                    " max by (namespace, pod, queue) (last_over_time(namespace_pod:workload:info[$__range]))) / 3.6e9"
                },
                Text(
                    asks="How much energy did each team's GPUs take?",
                    when_bad="Little energy for much money: they idle, which still draws a fifth.",
                ),
                Look(unit=units.KiloWattHour),
            ),
            bars(
                "Price of a GPU-hour by node",
                {"{{node}} {{instance_type}}": most(15, NODE_PRICE)},
                Text(
                    asks="Which price does this page count with?",
                    when_bad="Not yours: contracts differ; the settings' prices come from infra/instance_types.py.",
                ),
                Look(unit=_MONEY, decimals=2),
            ),
        ),
    )
