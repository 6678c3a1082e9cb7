"""Edits of node pools: one touches nothing but its own pool."""

from __future__ import annotations

import pytest

from tests.tables import each_row
from tests.unit.infra.alicloud.environment import (
    ERDMA_POOL,
    GPU_POOL,
    LINGJUN_POOL,
    pool,
)
from tests.unit.infra.alicloud.node_pool_program import (
    POOL,
    record_pools,
)


def test_a_replaced_pool_never_meets_its_own_name():
    """Names are unique in a cluster: the new pool could not be created while the old one is there."""
    for node_pool in record_pools(GPU_POOL, ERDMA_POOL, LINGJUN_POOL).of_type(POOL):
        assert node_pool.delete_before_replace, node_pool.name


EDITS = {
    "size": {"maximum": 16},
    "driver": {"gpu": {"driver_version": "570.169"}},
    "fixed": {"minimum": 8},
    "spot": {"spot": {}},
    "disk": {"system_disk": {"size_gib": 200}},
    "label": {"labels": {"a": "b"}},
    "close": {"low_latency": True, "zones": ["cn-hangzhou-i"], "instance_types": ["ecs.gn8v.4xlarge"]},
}


@pytest.fixture(scope="module")
def before():
    return record_pools(GPU_POOL, ERDMA_POOL)


@each_row("edit", EDITS.values(), ids=EDITS)
def test_an_edit_of_a_pool_touches_nothing_else(before, edit):
    after = record_pools(pool(**edit), ERDMA_POOL)
    changed = {
        resource.name for urn, resource in before.resources.items() if resource.inputs != after.resources[urn].inputs
    }
    assert changed == {"a10"}
    assert {after.resources[urn].name for urn in set(after.resources) - set(before.resources)} <= {"a10-placement"}


def test_a_pool_more_is_one_resource_more(before):
    fewer = record_pools(GPU_POOL)
    assert {before.resources[urn].name for urn in set(before.resources) - set(fewer.resources)} == {"h20"}
    for urn, resource in fewer.resources.items():
        assert resource.inputs == before.resources[urn].inputs


def test_the_component_names_its_pools():
    recording = record_pools(GPU_POOL)
    assert recording.exports == {"pools": {"a10": "a10", "system": "system"}, "system": ["system"]}
    [component] = recording.of_type("athanor:infra:NodePools")
    assert component.outputs == {"pools": ["a10", "system"]}
    for node_pool in recording.of_type(POOL):
        assert node_pool.parent == component.urn
