"""What a pool offers follows from its settings and the table of instance types, and survives the stack's outputs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES
from infra.offers import GPU_TAINT, NodeFacts, PlatformOffers, PoolOffer, Taint, node_facts, pool_named
from infra.pools import platform_offers, pool_offers
from infra.settings.gpu import Cgpu, Mig, Mps, TimeSlicing
from infra.settings.stack import Settings
from tests.tables import each_row

A100 = "ecs.ebmgn7e.32xlarge"
H20 = "ecs.gn8v-8x.48xlarge"
SYSTEM = {"name": "system", "role": "system", "instance_types": ["ecs.g7.2xlarge"], "minimum": 3, "maximum": 3}


def offers(*pools: dict) -> dict[str, PoolOffer]:
    zones = ["cn-hangzhou-i", "cn-hangzhou-j"]
    alicloud = {"region": "cn-hangzhou", "zones": zones, "node_pools": [SYSTEM, *pools]}
    return {offer.name: offer for offer in pool_offers(Settings.model_validate({"alicloud": alicloud}))}


def gpu_pool(**changes: object) -> dict:
    return {"name": "train", "role": "gpu", "instance_types": [A100], "maximum": 4, **changes}


LINGJUN = {"lingjun": {"cluster_id": "lj", "group_id": "g"}, "instance_types": [], "eni": "exclusive", "minimum": 4}
LINGJUN_TAINT = Taint(key="node-role.alibabacloud.com/lingjun", value="")
OTHER_GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true"}
TEAM = {"key": "team", "value": "vision", "effect": "NoExecute"}


@each_row(
    ("pool", "offered"),
    [
        ({}, {"gpus_per_node": 8, "gpu_memory_gib": 80, "max_nodes": 4, "sharing": None, "shares_per_gpu": 1}),
        ({}, {"eni": "shared", "exclusive_pods": 0, "rdma": "none", "terway": True, "taints": (GPU_TAINT,)}),
        ({}, {"zones": ("cn-hangzhou-i", "cn-hangzhou-j")}),
        ({"zones": ["cn-hangzhou-j"]}, {"zones": ("cn-hangzhou-j",)}),
        ({"taints": [TEAM]}, {"taints": (GPU_TAINT, Taint(**TEAM))}),
        # one of the same key replaces the usual one
        ({"taints": [OTHER_GPU_TAINT]}, {"taints": (Taint(**OTHER_GPU_TAINT),)}),
        # pods choose how much memory they share
        ({"gpu": {"sharing": {"mode": "cgpu"}}}, {"sharing": Cgpu(), "shares_per_gpu": 0}),
        # the node has an interface of its own
        ({"eni": "exclusive"}, {"exclusive_pods": INSTANCE_TYPES[A100].enis - 1}),
        ({"instance_types": [H20], "rdma": True}, {"rdma": "erdma"}),
        ({"instance_types": [H20]}, {"rdma": "none"}),
        # machines of no type that we know
        ({**LINGJUN, "rdma": True}, {"rdma": "lingjun", "gpus_per_node": None, "exclusive_pods": None}),
        ({**LINGJUN, "rdma": True}, {"shares_per_gpu": 1, "taints": (GPU_TAINT, LINGJUN_TAINT)}),
    ],
)
def test_a_pool_offers_what_its_type_and_settings_say(pool, offered):
    offer = offers(gpu_pool(**pool))["train"]
    assert {name: getattr(offer, name) for name in offered} == offered


def test_a_pool_without_gpus_offers_none_and_is_open():
    offer = offers()["system"]
    assert (offer.gpus_per_node, offer.gpu_memory_gib, offer.taints) == (0, 0, ())


@each_row(("ipv6", "rdma", "host_only"), [(False, True, True), (True, True, False), (False, False, False)])
def test_lingjun_rdma_is_for_the_hosts_network_alone_unless_there_is_ipv6(ipv6, rdma, host_only):
    pool = gpu_pool(**{**LINGJUN, "rdma": rdma, "lingjun": {**LINGJUN["lingjun"], "ipv6": ipv6}})
    assert offers(pool)["train"].rdma_on_host_network_only is host_only
    assert offers(gpu_pool(instance_types=[H20], rdma=True))["train"].rdma_on_host_network_only is False


def test_a_cluster_that_exists_offers_its_simulated_nodes():
    settings = Settings.model_validate({"cluster": {"simulated_nodes": [{"instance_type": H20, "count": 3}]}})
    [offer] = pool_offers(settings)
    assert (offer.name, offer.max_nodes, offer.gpus_per_node) == ("gn8v-8x-48xlarge", 3, 8)
    assert (offer.min_nodes, offer.zones) == (3, ("simulated-a", "simulated-b"))
    assert (offer.terway, offer.rdma) == (False, "none")
    assert {taint.key for taint in offer.taints} == {"kwok.x-k8s.io/node", "nvidia.com/gpu"}


@each_row(
    ("sharing", "per_gpu"),
    [
        ({"mode": "time_slicing", "replicas": 4}, 4),
        ({"mode": "mps", "replicas": 3}, 3),
        ({"mode": "mig", "profile": "3g.48gb"}, 2),
    ],
)
def test_simulated_nodes_share_as_the_device_plugin_would(sharing, per_gpu):
    groups = [{"instance_type": H20}, {"instance_type": "ecs.g7.2xlarge"}]
    stack = {"cluster": {"simulated_nodes": groups}, "gpu": {"device_plugin": True, "sharing": sharing}}
    gpu, cpu = pool_offers(Settings.model_validate(stack))
    assert gpu.sharing.mode == sharing["mode"]
    assert gpu.shares_per_gpu == per_gpu
    assert (cpu.role, cpu.gpus_per_node, cpu.sharing) == ("cpu", 0, None)
    assert [taint.key for taint in cpu.taints] == ["kwok.x-k8s.io/node"]


def test_other_clusters_offer_no_pool_that_we_know():
    assert pool_offers(Settings()) == ()


def test_an_unknown_pool_is_answered_with_near_ones():
    known = tuple(offers(gpu_pool()).values())
    assert pool_named("train", known).name == "train"
    with pytest.raises(RefusalError, match="did you mean train") as caught:
        pool_named("trian", known)
    assert caught.value.value == "trian"
    with pytest.raises(RefusalError, match="there is none"):
        pool_named("train", ())


def test_a_taint_is_tolerated_whatever_its_value():
    assert GPU_TAINT.toleration() == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


SHARINGS = st.none() | st.sampled_from(
    [TimeSlicing(replicas=4), Mps(replicas=2), Mig(profile="1g.10gb"), Cgpu(isolation="none")]
)
COUNTS = st.integers(0, 2**31)
OFFERS = st.builds(
    PoolOffer,
    max_nodes=COUNTS,
    min_nodes=COUNTS,
    gpus_per_node=st.none() | COUNTS,
    gpu_memory_gib=COUNTS,
    shares_per_gpu=COUNTS,
    exclusive_pods=st.none() | COUNTS,
    sharing=SHARINGS,
    node=st.none() | st.builds(NodeFacts, largest_vcpus=COUNTS, largest_memory_gib=COUNTS, nvlink=st.booleans()),
    taints=st.lists(st.builds(Taint, key=st.text(), value=st.text())).map(tuple),
    instance_types=st.lists(st.text()).map(tuple),
    zones=st.lists(st.text()).map(tuple),
)


def test_an_offer_of_an_earlier_release_can_be_read():
    data = offers(gpu_pool(minimum=2))["train"].to_dict()
    assert data.pop("min_nodes") == 2
    assert PoolOffer.from_dict(data).min_nodes == 0


@each_row("name", [A100, H20])
def test_the_node_of_an_earlier_releases_offer_is_that_of_its_type(name):
    offer = offers(gpu_pool(instance_types=[name]))["train"]
    assert offer.node == node_facts([INSTANCE_TYPES[name]])
    data = {key: value for key, value in offer.to_dict().items() if key != "node"}
    assert PoolOffer.from_dict(data) == offer
    assert PoolOffer.from_dict({**data, "instance_types": [name, "ecs.gn99.16xlarge"]}).node is None


def test_a_node_may_say_more_in_a_later_release():
    offer = offers(gpu_pool())["train"]
    data = offer.to_dict()
    assert PoolOffer.from_dict({**data, "node": {**data["node"], "added_later": 1}}) == offer


def test_a_pool_of_several_types_offers_its_largest_node():
    types = ["ecs.gn7e-c16g1.4xlarge", "ecs.gn7i-c16g1.4xlarge"]
    node = node_facts([INSTANCE_TYPES[name] for name in types])
    assert (node.largest_vcpus, node.largest_memory_gib) == (16, 125)


def test_an_offer_of_something_else_is_refused():
    data = offers(gpu_pool())["train"].to_dict()
    with pytest.raises(RefusalError, match="lacks zones"):
        PoolOffer.from_dict({key: value for key, value in data.items() if key != "zones"})
    with pytest.raises(RefusalError, match="update athanor"):
        PoolOffer.from_dict({**data, "sharing": {"mode": "quantum"}})


def test_workloads_know_the_networks_of_a_stack_on_alibaba_cloud():
    settings = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [SYSTEM]}
    platform = platform_offers(Settings.model_validate({"alicloud": settings}))
    assert platform.networks == ("10.64.0.0/12", "172.21.0.0/20")
    assert survived(platform) == platform
    assert platform_offers(Settings()).networks == ()


def survived(platform: PlatformOffers, *, without: tuple[str, ...] = ()) -> PlatformOffers:
    """Return what another stack reads; a stack of an earlier release says less."""
    data = json.loads(json.dumps(platform.to_dict()))
    return PlatformOffers.from_dict({key: value for key, value in data.items() if key not in without})


@given(
    st.lists(OFFERS, max_size=2).map(tuple),
    st.lists(st.text()).map(tuple),
    st.sampled_from(["restricted", "privileged"]),
)
def test_all_offers_of_a_platform_survive_the_outputs(pools, networkings, level):
    """A stack's state writes every number as a float, and newer owners may add keys."""
    offers = PlatformOffers(pools=pools, pod_networkings=networkings, pod_security=level)
    data = json.loads(json.dumps(offers.to_dict()), parse_int=float)
    data["pools"] = [{**pool, "added_later": 1} for pool in data["pools"]]
    assert PlatformOffers.from_dict(data) == offers


_ADAPTER = {"autoscaling": {"enabled": True}}
_THEIRS = {"kubeconfig": "/home/user/.kube/config", "context": "theirs"}


@each_row(
    ("settings", "offered"),
    [
        ({}, ()),
        ({"monitoring": _ADAPTER}, ("cpu", "queue_depth", "latency")),
        ({"monitoring": {**_ADAPTER, "kind": "none"}}, ()),
        ({"monitoring": {"autoscaling": {"enabled": True, "resource_metrics": False}}}, ("queue_depth", "latency")),
        ({"cluster": _THEIRS}, ("cpu",)),
        ({"cluster": _THEIRS, "monitoring": _ADAPTER}, ("cpu", "queue_depth", "latency")),
    ],
)
def test_workloads_know_what_autoscalers_can_hold(settings, offered):
    platform = platform_offers(Settings.model_validate(settings))
    assert platform.autoscaling == offered
    assert survived(platform) == platform
    assert survived(platform, without=("autoscaling",)).autoscaling is None


@each_row(
    ("settings", "is_served"),
    [
        ({}, False),
        ({"monitoring": _ADAPTER}, True),
        ({"cluster": _THEIRS, "monitoring": _ADAPTER}, False),
        ({"cluster": _THEIRS, "monitoring": {"autoscaling": {"enabled": True, "resource_metrics": True}}}, True),
    ],
)
def test_the_use_of_pods_is_served_where_nothing_else_does(settings, is_served):
    assert Settings.model_validate(settings).serves_resource_metrics is is_served


@each_row(
    ("gpu", "mps", "by_variable", "runtime_class"),
    [
        ({}, False, True, None),
        ({"device_plugin": True}, False, False, None),
        ({"device_plugin": True, "device_list": "envvar", "runtime_class": "nvidia"}, False, True, "nvidia"),
        ({"device_plugin": True, "sharing": {"mode": "mps", "replicas": 2}}, True, False, None),
        ({"device_plugin": True, "sharing": {"mode": "time_slicing", "replicas": 2}}, False, False, None),
    ],
)
def test_workloads_know_how_nodes_give_gpus_to_containers(gpu, mps, by_variable, runtime_class):
    platform = platform_offers(Settings.model_validate({"gpu": gpu}))
    assert (platform.mps, platform.gpus_by_variable, platform.gpu_runtime_class) == (mps, by_variable, runtime_class)
    assert survived(platform) == platform
    assert survived(platform, without=("mps", "gpus_by_variable")).gpus_by_variable is True
