"""Edits of node pools: one touches nothing but its own pool."""

from __future__ import annotations

import pulumi
import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import ERDMA_POOL, GPU_POOL, LINGJUN_POOL, ZONES, pool
from tests.unit.infra.alicloud.node_pool_program import POOL, record_pools


def test_a_replaced_pool_never_meets_its_own_name():
    """Names are unique in a cluster: the new pool could not be created while the old one is there."""
    for node_pool in record_pools(GPU_POOL, ERDMA_POOL, LINGJUN_POOL).of_type(POOL):
        assert node_pool.delete_before_replace, node_pool.name


GROUPS = ("sg-first", "sg-second")
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
        resource.name
        for urn, resource in before.resources.items()
        if resource.custom and resource.inputs != after.resources[urn].inputs
    }
    assert changed == {"a10"}
    assert {after.resources[urn].name for urn in set(after.resources) - set(before.resources)} <= {"a10-placement"}


def test_a_pool_more_is_one_resource_more(before):
    fewer = record_pools(GPU_POOL)
    assert {before.resources[urn].name for urn in set(before.resources) - set(fewer.resources)} == {"h20"}
    for urn, resource in fewer.resources.items():
        assert not resource.custom or resource.inputs == before.resources[urn].inputs


def _edit(before, after):
    """Update from one recording to another as the engine does: it asks the hooks of the pools' component first."""
    [old], [new] = (recording.of_type("athanor:infra:NodePools") for recording in (before, after))
    for hook in new.before_update:
        args = pulumi.ResourceHookArgs(
            urn=new.urn, id="", name=new.name, type=new.type, old_inputs=old.inputs, new_inputs=new.inputs
        )
        after.hooks[hook].callback(args)


CLOSE = pool(instance_types=["ecs.gn8v.4xlarge"], zones=["cn-hangzhou-i"])
REPLACING = {
    "close": (CLOSE, pool(CLOSE, low_latency=True)),
    "apart": (pool(CLOSE, low_latency=True), CLOSE),
    "lingjun": (pool(name="lingjun"), LINGJUN_POOL),
}


@each_row(("old", "new"), REPLACING.values(), ids=REPLACING)
def test_an_edit_that_would_delete_a_pool_is_refused(old, new):
    with pytest.raises(RefusalError, match=f"{new['name']}.*with its nodes.*Fix: restore it, and add a pool"):
        _edit(record_pools(old), record_pools(new))


def test_another_security_group_would_delete_the_pools_too():
    vswitches = {zone: f"vsw-{zone[-1]}" for zone in ZONES}
    network = {"vpc_id": "vpc-1", "node_vswitch_ids": vswitches, "pod_vswitch_ids": vswitches}
    before, after = (record_pools(network={"existing": {**network, "security_group_id": group}}) for group in GROUPS)
    with pytest.raises(RefusalError, match=r"sg-second.*was .*sg-first"):
        _edit(before, after)


@each_row("edit", [edit for name, edit in EDITS.items() if name != "close"])
def test_other_edits_are_not_refused(before, edit):
    _edit(before, record_pools(pool(**edit)))


def _pool_edit(old, new):
    """Return what the hooks of a pool say to an update of it."""
    before, after = record_pools(old), record_pools(new)
    args = pulumi.ResourceHookArgs(
        urn="urn", id="", name="a10", type=POOL, old_inputs=before.one("a10").inputs, new_inputs=after.one("a10").inputs
    )
    for hook in after.one("a10").before_update:
        assert after.hooks[hook].opts.on_dry_run
        after.hooks[hook].callback(args)


SPOT = pool(spot={})


@each_row(("old", "new"), [(GPU_POOL, SPOT), (SPOT, GPU_POOL)], ids=["to spot", "to on demand"])
def test_a_pool_stays_spot_or_on_demand(old, new):
    with pytest.raises(RefusalError, match=r"spot of node pool 'a10'.*ACK changes no pool.*add a pool with another"):
        _pool_edit(old, new)


@each_row(
    ("old", "new", "warned"),
    [
        (GPU_POOL, pool(maximum=0), "at most 0 nodes in place of 8"),
        (pool(minimum=4, maximum=4), pool(minimum=3, maximum=3), "at most 3 nodes in place of 4"),
        (pool(minimum=2), pool(minimum=1), ""),
        (GPU_POOL, pool(maximum=9), ""),
        (SPOT, pool(spot={"price_limits": {"ecs.gn7i-c16g1.4xlarge": 3.5}}), ""),
    ],
)
def test_a_preview_warns_where_jobs_end_because_a_pool_gets_smaller(monkeypatch, old, new, warned):
    said = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    _pool_edit(old, new)
    about_nodes = [text for text in said if "draining" in text]
    assert len(about_nodes) == bool(warned)
    assert warned in "".join(about_nodes)


def test_pools_come_and_go():
    _edit(record_pools(GPU_POOL), record_pools(pool(CLOSE, name="h20", low_latency=True)))


def test_the_component_names_its_pools():
    recording = record_pools(GPU_POOL)
    assert recording.exports == {"pools": {"a10": "a10", "system": "system"}, "system": ["system"]}
    [component] = recording.of_type("athanor:infra:NodePools")
    assert component.outputs == {"pools": ["a10", "system"]}
    for node_pool in recording.of_type(POOL):
        assert node_pool.parent == component.urn
