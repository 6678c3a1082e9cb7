"""The cost of GPUs as PromQL: hourly prices, and sums over the dashboard's time range."""

from __future__ import annotations

from infra.monitoring.dashboards.board import Entry
from infra.monitoring.rules.prices import NODE_PRICE

CURRENCY = "CNY"
MONEY = f"currency:{CURRENCY}"
"""Grafana's unit for a currency that has none of its own there."""
PRICE = Entry(
    name="price",
    label=f"{CURRENCY} per GPU-hour without a list price",
    value="0",
    about="Price of a GPU-hour where the instance type has no list price; 0 means free.",
)
OF_A_GPU = f"({NODE_PRICE} or on (node) node:gpus_allocatable:sum * 0 + ${PRICE.name})"
"""Hourly cost of a GPU of each node."""
HELD = f"namespace_pod:gpus_allocated:sum * on (node) group_left () {OF_A_GPU}"
"""Hourly cost of each pod's GPUs."""


def so_far(per_hour: str) -> str:
    """Return the sum over the dashboard's time range of what is counted per hour, looked at every five minutes."""
    return f"sum_over_time(({per_hour})[$__range:5m]) / 12"
