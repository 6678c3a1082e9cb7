"""What queues get follows from the pools: never more than there is, and never of nodes that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES
from infra.kubernetes.quantities import quantity_value
from infra.pools import pool_offers
from infra.queues import QueueLimits, queue_limits, queue_manifest
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.settings.scheduling import QueueSettings, SchedulingSettings
from infra.settings.stack import Settings
from tests.recording_engine import record
from tests.tables import each_row

if TYPE_CHECKING:
    from infra.offers import PoolOffer

A100 = "ecs.ebmgn7e.32xlarge"
SYSTEM = {"name": "system", "role": "system", "instance_types": ["ecs.g7.2xlarge"], "minimum": 3, "maximum": 3}
TRAIN = {"name": "train", "role": "gpu", "instance_types": [A100], "minimum": 2, "maximum": 4}
CPU = {"name": "cpu", "role": "cpu", "instance_types": ["ecs.c7.8xlarge"], "minimum": 1, "maximum": 2}
SHARED = {**TRAIN, "name": "shared", "gpu": {"sharing": {"mode": "cgpu", "isolation": "memory_and_cores"}}}
LINGJUN = {
    "name": "lingjun",
    "role": "gpu",
    "eni": "exclusive",
    "minimum": 4,
    "maximum": 4,
    "lingjun": {"cluster_id": "lj", "group_id": "g"},
}


def pools(*node_pools: dict[str, Any]) -> tuple[PoolOffer, ...]:
    alicloud = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [SYSTEM, *node_pools]}
    return pool_offers(Settings.model_validate({"alicloud": alicloud}))


def limits(offers: tuple[PoolOffer, ...], **queues: dict[str, Any]) -> dict[str, QueueLimits]:
    settings = [QueueSettings.model_validate({"name": name, **values}) for name, values in queues.items()]
    return dict(zip(queues, queue_limits(settings, offers), strict=True))


def test_weights_share_the_gpus_that_there_can_ever_be():
    by_queue = limits(pools(TRAIN, CPU), research={"weight": 3}, production={})
    assert by_queue["research"] == QueueLimits(deserved={"nvidia.com/gpu": "24"})
    assert by_queue["production"] == QueueLimits(deserved={"nvidia.com/gpu": "8"})


def test_pools_that_are_turned_off_count_for_nothing():
    """`maximum: 0` is how a pool sleeps over night."""
    off = {**TRAIN, "minimum": 0, "maximum": 0}
    assert limits(pools(off, CPU), a={"maximum_percent": 50})["a"].capability == {"cpu": "32", "memory": "64Gi"}
    assert limits(pools(off, CPU), a={}, b={})["a"].deserved == {"cpu": "32"}
    assert limits(pools(off), a={"maximum_percent": 50}, b={}) == {"a": QueueLimits(), "b": QueueLimits()}


def test_a_guarantee_is_of_the_nodes_that_are_always_there():
    by_queue = limits(pools(TRAIN), a={"guaranteed_percent": 50}, b={})
    assert by_queue["a"].guarantee == {"nvidia.com/gpu": "8"}
    assert by_queue["a"].deserved == {"nvidia.com/gpu": "16"}
    assert by_queue["b"].guarantee == {}


def test_a_limit_is_of_all_that_nodes_hold_but_the_platforms_own():
    [given_out] = limits(pools(TRAIN, CPU), a={"maximum_percent": 50}).values()
    assert given_out.capability == {"cpu": "288", "memory": "2112Gi", "nvidia.com/gpu": "16"}
    assert given_out.deserved == {"nvidia.com/gpu": "16"}


def test_a_share_is_raised_to_the_guarantee():
    """Volcano's admission refuses a guarantee above what is deserved."""
    by_queue = limits(pools(TRAIN), a={"guaranteed_percent": 100}, b={"weight": 99})
    assert by_queue["a"].deserved == by_queue["a"].guarantee == {"nvidia.com/gpu": "16"}


def test_shared_gpus_are_shared_by_their_memory():
    [given_out] = limits(pools(SHARED), a={"guaranteed_percent": 10, "maximum_percent": 50}).values()
    assert given_out.guarantee == {"aliyun.com/gpu-mem": "128"}
    assert (
        given_out.capability.items() >= {"aliyun.com/gpu-mem": "1280", "aliyun.com/gpu-core.percentage": "1600"}.items()
    )


@each_row(
    ("sharing", "resource"),
    [
        ({"mode": "time_slicing", "replicas": 4}, {"nvidia.com/gpu.shared": "64"}),
        ({"mode": "mps", "replicas": 2}, {"nvidia.com/gpu.shared": "32"}),
        ({"mode": "mig", "profile": "3g.40gb"}, {"nvidia.com/mig-3g.40gb": "32"}),
        (None, {"nvidia.com/gpu": "16"}),
    ],
)
def test_each_way_to_share_has_its_own_resource(sharing, resource):
    stack = {"cluster": {"simulated_nodes": [{"instance_type": A100, "count": 2}]}}
    gpu = {"gpu": {"device_plugin": True, "sharing": sharing}}
    [given_out] = limits(pool_offers(Settings.model_validate({**stack, **gpu})), a={}).values()
    assert given_out.deserved == resource


def test_without_gpus_queues_share_the_cpu():
    by_queue = limits(pools(CPU), a={"guaranteed_percent": 10}, b={})
    assert by_queue["a"].guarantee == {"cpu": "3200m"}
    assert by_queue["b"].deserved == {"cpu": "32"}


def test_where_no_pool_is_known_nothing_is_derived():
    assert limits((), a={"weight": 2}) == {"a": QueueLimits()}
    explicit = {"deserved": {"cpu": "4"}, "guarantee": {"nvidia.com/gpu": "2"}, "capability": {"cpu": "8"}}
    [given_out] = limits((), a=explicit).values()
    assert given_out.guarantee == {"nvidia.com/gpu": "2"}
    assert given_out.deserved == {"cpu": "4", "nvidia.com/gpu": "2"}
    assert given_out.capability == {"cpu": "8"}


def test_machines_that_no_table_knows_are_not_guessed_at():
    explicit = {"capability": {"nvidia.com/gpu": "32"}}
    assert limits(pools(TRAIN, LINGJUN), a=explicit)["a"] == QueueLimits(capability={"nvidia.com/gpu": "32"})


GPU, UNKNOWN_POOLS = "nvidia.com/gpu", "does not know its node pools"
# pools, queues by name, the key that is named, words of the limit, words of the fix
REFUSED: list[tuple[tuple[dict[str, Any], ...] | None, dict[str, dict[str, Any]], str, str, str]] = [
    (None, {"a": {"guaranteed_percent": 5}}, "[a].guaranteed_percent", UNKNOWN_POOLS, "set guarantee"),
    (None, {"a": {"maximum_percent": 5}}, "[a].maximum_percent", UNKNOWN_POOLS, "set capability"),
    ((), {"a": {"maximum_percent": 5}}, "[a].maximum_percent", UNKNOWN_POOLS, "set capability"),
    ((LINGJUN,), {"a": {"maximum_percent": 5}}, "[a].maximum_percent", "'lingjun'", "set capability"),
    (
        ({**TRAIN, "minimum": 0},),
        {"a": {"guaranteed_percent": 50}},
        "[a].guaranteed_percent",
        "{'nvidia.com/gpu': '0'}",
        "raise a pool's minimum",
    ),
    ((TRAIN,), {"a": {"guaranteed_percent": 6}}, "[a].guaranteed_percent", "'16'", "raise a pool's minimum"),
    ((TRAIN,), {"a": {"maximum_percent": 3}}, "[a].maximum_percent", f"one of 32 {GPU}", "choose 4"),
    ((TRAIN,), {"a": {"capability": {"nvidia.com/gpus": "4"}}}, "[a].capability", "nvidia.com/gpus", "mean"),
    ((TRAIN,), {"a": {"guarantee": {"amd.com/gpu": "4"}}}, "[a].guarantee", "amd.com/gpu", GPU),
    ((TRAIN,), {"a": {"deserved": {"amd.com/gpu": "4"}}}, "[a].deserved", "amd.com/gpu", GPU),
    (
        (TRAIN,),
        {"a": {"guarantee": {GPU: "10"}}, "b": {"guarantee": {GPU: "7"}}},
        f"[].guarantee.{GPU}",
        "exceeds the 16",
        "lower guarantee",
    ),
    ((TRAIN,), {"a": {"deserved": {GPU: "33"}}}, f"[].deserved.{GPU}", "exceeds the 32", "lower deserved"),
    (
        (TRAIN,),
        {"a": {"guarantee": {GPU: "9"}, "maximum_percent": 25}},
        "[a].guarantee",
        "above the queue's hard limit of 8",
        "lower guarantee",
    ),
    (
        None,
        {"a": {"guarantee": {"cpu": "2"}, "capability": {"cpu": "1500m"}}},
        "[a].guarantee",
        "hard limit of 1500m",
        "raise the limit",
    ),
    (
        None,
        {"a": {"deserved": {"memory": "2Gi"}, "capability": {"memory": "2047Mi"}}},
        "[a].deserved",
        "hard limit of 2047Mi",
        "lower deserved",
    ),
]


@each_row(("node_pools", "queues", "key", "limit", "fix"), REFUSED, ids=[f"{r[2]}: {r[3]}" for r in REFUSED])
def test_what_the_pools_cannot_keep_is_refused(node_pools, queues, key, limit, fix):
    with pytest.raises(RefusalError) as caught:
        limits(() if node_pools is None else pools(*node_pools), **queues)
    assert caught.value.field == f"athanor:scheduling.queues{key}"
    assert limit in caught.value.limit
    assert fix in caught.value.fix


POOLS = st.lists(
    st.builds(
        lambda name, types, low, more: {
            "role": "gpu" if INSTANCE_TYPES[types].gpus else "cpu",
            "name": name,
            "instance_types": [types],
            "minimum": low,
            "maximum": low + more,
        },
        st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda name: name != "system"),
        st.sampled_from([A100, "ecs.gn7i-c8g1.2xlarge", "ecs.c7.8xlarge", "ecs.gn8v-8x.48xlarge"]),
        st.integers(1, 50),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda pool: pool["name"],
)


@given(POOLS, st.lists(st.tuples(st.integers(1, 65535), st.integers(0, 100)), min_size=1, max_size=5))
def test_no_queues_together_get_more_than_there_is(node_pools, weights_and_percents):
    total = sum(percent for _, percent in weights_and_percents)
    shares = [percent * 100 // total if total > 100 else percent for _, percent in weights_and_percents]
    queues = [
        QueueSettings(name=f"q{index}", weight=weight, guaranteed_percent=share)
        for index, ((weight, _), share) in enumerate(zip(weights_and_percents, shares, strict=True))
    ]
    SchedulingSettings(queues=tuple(queues))
    offers = pools(*node_pools)
    try:
        given_out = queue_limits(queues, offers)
    except RefusalError:
        return
    fewest, most = _held(node_pools, "minimum"), _held(node_pools, "maximum")
    for resource in fewest:
        kept = [quantity_value(queue.guarantee.get(resource, "0")) for queue in given_out]
        assert sum(kept) <= fewest[resource]
    for resource in most:
        by_weight = queue_limits([queue.model_copy(update={"guaranteed_percent": None}) for queue in queues], offers)
        assert sum(quantity_value(queue.deserved.get(resource, "0")) for queue in by_weight) <= most[resource]
    for queue in given_out:
        assert all(
            quantity_value(queue.deserved[name]) >= quantity_value(queue.guarantee[name]) for name in queue.guarantee
        )


@given(POOLS, st.integers(1, 100), st.integers(1, 100))
def test_the_limit_is_never_below_the_share_nor_above_the_pools(node_pools, maximum, guaranteed):
    queue = {"maximum_percent": maximum, "guaranteed_percent": min(guaranteed, maximum)}
    try:
        [given_out] = limits(pools(*node_pools), a=queue).values()
    except RefusalError:
        return
    most = _held(node_pools, "maximum")
    for name, amount in given_out.capability.items():
        assert 0 < quantity_value(amount) <= most.get(name, quantity_value("1Pi"))
    for name in {*given_out.deserved, *given_out.guarantee}:
        assert quantity_value(given_out.deserved[name]) <= quantity_value(given_out.capability[name])


def _held(node_pools: list[dict[str, Any]], size: str) -> dict[str, int]:
    facts = [(pool[size], INSTANCE_TYPES[pool["instance_types"][0]]) for pool in node_pools]
    gpus = sum(nodes * each.gpus for nodes, each in facts)
    return {"cpu": sum(nodes * each.vcpus for nodes, each in facts), **({"nvidia.com/gpu": gpus} if gpus else {})}


def test_a_queue_says_what_its_settings_and_limits_say():
    plain = queue_manifest(QueueSettings(name="a"), QueueLimits())
    assert (plain["metadata"], plain["spec"]) == ({"name": "a"}, {"weight": 1, "reclaimable": True})
    some = QueueLimits(deserved={"cpu": "3"}, guarantee={"cpu": "2"}, capability={"cpu": "4"})
    assert queue_manifest(QueueSettings(name="a", weight=4, reclaimable=False), some)["spec"] == {
        "weight": 4,
        "reclaimable": False,
        "deserved": {"cpu": "3"},
        "guarantee": {"resource": {"cpu": "2"}},
        "capability": {"cpu": "4"},
    }


TWO = [{"name": "a", "weight": 3}, {"name": "b"}]
NODES = {"simulated_nodes": [{"instance_type": A100}]}


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        ({"scheduling": {"queues": TWO}}, True),
        ({"scheduling": {"queues": TWO[:1]}}, False),
        ({"scheduling": {"queues": [{**queue, "deserved": {"cpu": "2"}} for queue in TWO]}}, False),
        ({"scheduling": {"queues": TWO}, "cluster": NODES}, False),
    ],
)
def test_shares_of_nothing_are_reported(config, warned, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, _resource: messages.append(message))
    settings = Settings.model_validate({**config, "scheduling": {**config["scheduling"], "install": False}})
    args = GangSchedulingArgs(settings=settings.scheduling, namespace="team", pools=pool_offers(settings))
    record(lambda: GangScheduling("scheduling", args), preview=True)
    assert any("set `deserved`" in message for message in messages) is warned
