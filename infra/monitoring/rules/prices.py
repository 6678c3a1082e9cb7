"""Hourly prices of GPUs as series, to compute costs from what pods hold: list prices, in CNY.

As series, not as part of a query: today's price then does not change the cost of last month. Source of the prices:
infra/instance_types.py.
"""

from __future__ import annotations

from infra.instance_types import INSTANCE_TYPES
from infra.monitoring.rules.rule import Area, Recording

NODE_PRICE = "node:gpu_price_cny_per_hour:list"
_TYPE_PRICE = "instance_type:gpu_price_cny_per_hour:list"
_TYPE_LABEL = "label_node_kubernetes_io_instance_type"


def area() -> Area:
    """Return the recording rules; instance types without a list price have none."""
    per_gpu = {
        row.name: row.price_cny_per_hour / row.gpus
        for row in INSTANCE_TYPES.values()
        if row.gpus and row.price_cny_per_hour is not None
    }
    types = f'label_replace(kube_node_labels{{{_TYPE_LABEL}!=""}}, "instance_type", "$1", "{_TYPE_LABEL}", "(.*)")'
    return Area(
        name="prices",
        recordings=(
            *(
                Recording(record=_TYPE_PRICE, expr=f"vector({price:.4f})", labels={"instance_type": name})
                for name, price in per_gpu.items()
            ),
            Recording(
                record=NODE_PRICE,
                expr=f"""
                    max by (node, instance_type) (
                      {types} * on (instance_type) group_left () {_TYPE_PRICE}
                    )""",
            ),
        ),
    )
