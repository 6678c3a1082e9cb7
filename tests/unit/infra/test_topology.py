"""HyperNodes tell Volcano which nodes are close: by labels, so that new nodes belong at once."""

from __future__ import annotations

from infra.node_labels import POOL_LABEL
from infra.pools import platform_offers, pool_offers
from infra.settings.stack import Settings
from infra.topology import POOL_TIER, ZONE_TIER, hyper_node_manifests
from tests.fixtures.recorded_stack import UNWATCHED

SYSTEM = {"name": "system", "role": "system", "instance_types": ["ecs.g7.2xlarge"], "minimum": 3, "maximum": 3}
TRAIN = {"name": "train", "role": "gpu", "instance_types": ["ecs.ebmgn7e.32xlarge"], "maximum": 4}
ENVIRONMENT = {
    "alicloud": {
        "region": "cn-hangzhou",
        "zones": ["cn-hangzhou-i", "cn-hangzhou-j"],
        "node_pools": [SYSTEM, {**TRAIN, "zones": ["cn-hangzhou-j"]}],
    }
}
SIMULATED = {"cluster": {"simulated_nodes": [{"instance_type": "ecs.ebmgn7e.32xlarge", "count": 3}]}}


def test_the_nodes_of_a_pool_in_a_zone_are_close_and_those_of_a_zone_less():
    hyper_nodes = hyper_node_manifests(pool_offers(Settings.model_validate(ENVIRONMENT)))
    tiers = {name: manifest["spec"]["tier"] for name, manifest in hyper_nodes.items()}
    assert tiers == {
        "pool.system.cn-hangzhou-i": POOL_TIER,
        "pool.system.cn-hangzhou-j": POOL_TIER,
        "pool.train.cn-hangzhou-j": POOL_TIER,
        "zone.cn-hangzhou-i": ZONE_TIER,
        "zone.cn-hangzhou-j": ZONE_TIER,
    }
    assert all(manifest["metadata"] == {"name": name} for name, manifest in hyper_nodes.items())
    assert hyper_nodes["pool.train.cn-hangzhou-j"]["spec"]["members"] == [
        {
            "type": "Node",
            "selector": {
                "labelMatch": {"matchLabels": {POOL_LABEL: "train", "topology.kubernetes.io/zone": "cn-hangzhou-j"}}
            },
        }
    ]
    members = hyper_nodes["zone.cn-hangzhou-j"]["spec"]["members"]
    assert [member["type"] for member in members] == ["HyperNode", "HyperNode"]
    names = [member["selector"]["exactMatch"]["name"] for member in members]
    assert names == ["pool.system.cn-hangzhou-j", "pool.train.cn-hangzhou-j"]


def test_each_hyper_node_has_one_parent():
    """Volcano takes no HyperNode into two others: it would stop to schedule by topology."""
    hyper_nodes = hyper_node_manifests(pool_offers(Settings.model_validate(ENVIRONMENT)))
    members = [
        member["selector"]["exactMatch"]["name"]
        for manifest in hyper_nodes.values()
        for member in manifest["spec"]["members"]
        if member["type"] == "HyperNode"
    ]
    assert len(members) == len(set(members))
    assert set(members) <= set(hyper_nodes)


def test_where_no_zone_is_known_there_is_no_topology():
    assert hyper_node_manifests(pool_offers(Settings())) == {}
    assert not platform_offers(Settings()).topology
    assert platform_offers(Settings.model_validate(ENVIRONMENT)).topology


def test_a_cluster_with_a_volcano_of_its_own_keeps_its_topology():
    settings = Settings.model_validate({**SIMULATED, "scheduling": {"install": False}})
    assert not platform_offers(settings).topology


def test_every_simulated_node_belongs_to_one_pool_of_one_zone(record_stack):
    recording = record_stack({**SIMULATED, **UNWATCHED})
    selectors = [
        member["selector"]["labelMatch"]["matchLabels"]
        for hyper_node in recording.of_kind("HyperNode")
        for member in hyper_node.inputs["spec"]["members"]
        if member["type"] == "Node"
    ]
    nodes = [node.inputs["metadata"]["labels"] for node in recording.of_kind("Node")]
    assert len(nodes) == 3
    for labels in nodes:
        assert sum(selector.items() <= labels.items() for selector in selectors) == 1
    assert len(selectors) == 2


def test_hyper_nodes_are_gone_before_the_controllers_that_know_them(record_stack):
    recording = record_stack({**SIMULATED, **UNWATCHED})
    [definition] = [
        resource
        for resource in recording.of_kind("CustomResourceDefinition")
        if resource.inputs["spec"]["names"]["plural"] == "hypernodes"
    ]
    job = recording.one("digits-training", "Job")
    for hyper_node in recording.of_kind("HyperNode"):
        before = recording.ancestors(hyper_node)
        assert {definition.urn, recording.one("volcano-controllers", "Deployment").urn} <= before
        assert hyper_node.urn in recording.ancestors(job)
