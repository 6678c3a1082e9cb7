"""List prices of GPUs as recording rules."""

from __future__ import annotations

import re

from infra.instance_types import INSTANCE_TYPES
from infra.monitoring.rules import prices


def _of_types() -> dict[str, float]:
    return {
        rule.labels["instance_type"]: float(re.fullmatch(r"vector\(([\d.]+)\)", rule.expr)[1])
        for rule in prices.area().recordings
        if rule.labels
    }


def test_a_gpus_price_is_its_part_of_the_nodes():
    row = INSTANCE_TYPES["ecs.gn7e-c16g1.32xlarge"]
    assert row.price_cny_per_hour == 277.933
    assert _of_types()[row.name] == 34.7416


def test_types_without_a_price_or_a_gpu_have_none():
    unpriced = {row.name for row in INSTANCE_TYPES.values() if row.price_cny_per_hour is None}
    without_gpu = {row.name for row in INSTANCE_TYPES.values() if not row.gpus}
    assert unpriced
    assert without_gpu
    assert not set(_of_types()) & (unpriced | without_gpu)


def test_the_nodes_price_comes_last_for_it_is_computed_from_the_others():
    assert prices.area().recordings[-1].record == prices.NODE_PRICE
