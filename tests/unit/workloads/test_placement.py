"""Where pods run and on which network: every combination is either written down rightly or refused with the reason."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.pod_network import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.pools import GPU_TAINT, PlatformOffers, PoolOffer, Taint
from infra.rdma import Rdma
from infra.settings.gpu import TimeSlicing
from workloads.accelerators import SharedGpu
from workloads.placement import Placement, capabilities, check_placement, devices, network_environment, placed
from workloads.resources import Resources

GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
TRAIN = PoolOffer(
    name="train",
    role="gpu",
    instance_types=("ecs.ebmgn7e.32xlarge",),
    zones=("cn-hangzhou-i",),
    max_nodes=4,
    gpus_per_node=8,
    gpu_memory_gib=80,
    shares_per_gpu=1,
    sharing=None,
    eni="shared",
    exclusive_pods=0,
    rdma="none",
    taints=(GPU_TAINT, Taint(key="team", value="vision")),
    terway=True,
)
ALONE = dataclasses.replace(TRAIN, name="alone", eni="exclusive", exclusive_pods=31)
ERDMA = dataclasses.replace(TRAIN, name="erdma", instance_types=("ecs.gn8is-8x.32xlarge",), rdma="erdma")
LINGJUN = dataclasses.replace(ALONE, name="lingjun", instance_types=("ecs.gn8v-8x.48xlarge",), rdma="lingjun")
SLICED = dataclasses.replace(TRAIN, name="sliced", sharing=TimeSlicing(replicas=4), shares_per_gpu=4)
CPU = dataclasses.replace(
    TRAIN, name="cpu", role="cpu", instance_types=("ecs.g7.2xlarge",), gpus_per_node=0, gpu_memory_gib=0, taints=()
)
ELSEWHERE = dataclasses.replace(TRAIN, name="elsewhere", terway=False)
OFFERS = PlatformOffers(
    pools=(TRAIN, ALONE, ERDMA, LINGJUN, SLICED, CPU), pod_networkings=("storage",), pod_security="privileged"
)
SAFE = dataclasses.replace(OFFERS, pod_security="restricted")
SPEC = {"containers": [{"name": "worker"}]}
TRUNK = TrunkEni(pod_networking="storage")


def asks(**changes: object) -> Placement:
    fields = {
        "pods": 2,
        "own_labels": {"athanor.dev/job": "train"},
        "resources": Resources(gpus=8),
        "network": SharedEni(),
        "pool": None,
        "rdma": None,
        **changes,
    }
    return Placement(**fields)


def only(*pools: PoolOffer) -> PlatformOffers:
    return dataclasses.replace(OFFERS, pools=pools)


def test_a_pod_that_asks_for_nothing_stays_as_it_is():
    asked = asks(resources=Resources())
    for offers in (PlatformOffers(), SAFE):
        check_placement(asked, offers)
        assert placed(SPEC, asked, offers) == SPEC
        assert devices(asked, offers) == {}
        assert capabilities(asked, offers) == []
        assert network_environment(asked, offers) == {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}


def test_gpu_pods_are_let_onto_gpu_nodes_wherever_they_are():
    assert placed(SPEC, asks(), PlatformOffers()) == {**SPEC, "tolerations": [GPU_TOLERATION]}


def test_a_pool_is_chosen_by_its_label_and_its_taints_are_tolerated_once():
    spec = placed(SPEC, asks(pool="train"), OFFERS)
    assert spec["nodeSelector"] == {"athanor.dev/pool": "train"}
    assert spec["tolerations"] == [GPU_TOLERATION, {"key": "team", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_pod_without_gpus_may_still_use_a_gpu_pool():
    asked = asks(resources=Resources(), pool="train")
    check_placement(asked, OFFERS)
    assert GPU_TOLERATION in placed(SPEC, asked, OFFERS)["tolerations"]


def test_exclusive_interfaces_select_their_nodes():
    asked = asks(network=ExclusiveEni())
    check_placement(asked, OFFERS)
    assert placed(SPEC, asked, OFFERS)["nodeSelector"] == {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
    named = placed(SPEC, asks(network=ExclusiveEni(), pool="alone"), OFFERS)["nodeSelector"]
    assert named == {"athanor.dev/pool": "alone", "k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}


def test_on_the_hosts_network_no_two_pods_of_a_workload_share_a_node():
    asked = asks(network=HostNetwork())
    check_placement(asked, OFFERS)
    spec = placed(SPEC, asked, OFFERS)
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "labelSelector": {"matchLabels": {"athanor.dev/job": "train"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    environment = network_environment(asks(network=HostNetwork(interface="bond0")), OFFERS)
    assert set(environment.values()) == {"bond0"}


@pytest.mark.parametrize(
    ("pool", "limits", "added", "environment"),
    [
        ("erdma", {"aliyun/erdma": "1"}, [], {"NCCL_NET_GDR_LEVEL": "SYS"}),
        ("lingjun", {"rdma/hca": "1"}, ["IPC_LOCK", "SYS_RESOURCE"], {"NCCL_IB_HCA": "mlx5"}),
    ],
)
def test_rdma_is_of_the_pools_kind(pool, limits, added, environment):
    asked = asks(pool=pool, rdma=Rdma(), network=ExclusiveEni() if pool == "lingjun" else SharedEni())
    check_placement(asked, OFFERS)
    assert devices(asked, OFFERS) == limits
    assert capabilities(asked, OFFERS) == added
    usual = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
    assert network_environment(asked, OFFERS) == {**usual, **environment}


def test_rdma_that_nobody_asked_for_is_not_used():
    asked = asks(pool="erdma")
    assert devices(asked, OFFERS) == {}
    assert network_environment(asked, OFFERS)["NCCL_IB_DISABLE"] == "1"
    # Without a GPU there is no NCCL.
    assert "NCCL_IB_DISABLE" not in network_environment(asks(pool="erdma", resources=Resources()), OFFERS)


@pytest.mark.parametrize(
    ("asked", "offers", "words"),
    [
        (asks(pool="trian"), OFFERS, ("pool = 'trian'", "did you mean train?")),
        (asks(pool="train"), PlatformOffers(), ("pool = 'train'", "there is none to choose from")),
        # networks
        (asks(pool="alone"), OFFERS, ("network = 'SharedEni'", "of its own", "ExclusiveEni")),
        (asks(network=TRUNK), only(ELSEWHERE), ("network = 'TrunkEni'", "not ACK's", "leave network out")),
        (asks(network=TRUNK), PlatformOffers(), ("network = 'TrunkEni'", "not ACK's", "leave network out")),
        (asks(network=ExclusiveEni()), only(ELSEWHERE), ("network = 'ExclusiveEni'", "not ACK's")),
        (asks(network=ExclusiveEni()), only(TRAIN), ("network = 'ExclusiveEni'", "share", "eni: exclusive")),
        (asks(network=ExclusiveEni(), pool="train"), OFFERS, ("network = 'ExclusiveEni'", "share", "pool='alone'")),
        (asks(network=TRUNK, pool="alone"), OFFERS, ("network = 'TrunkEni'", "no trunk", "eni: shared")),
        (asks(network=TRUNK), only(ALONE), ("network = 'TrunkEni'", "no trunk", "eni: shared")),
        (
            asks(network=TrunkEni(pod_networking="storrage")),
            OFFERS,
            ("network.pod_networking = 'storrage'", "did you mean storage?"),
        ),
        (asks(network=HostNetwork()), SAFE, ("network = 'HostNetwork'", "'restricted'", "athanor:pod_security")),
        # RDMA
        (asks(rdma=Rdma()), OFFERS, ("rdma", "needs a pool", "rdma: true")),
        (asks(rdma=Rdma(), pool="train"), OFFERS, ("rdma", "'train' has no RDMA", "rdma: true")),
        (
            asks(rdma=Rdma(smc_r=True), pool="lingjun", network=ExclusiveEni()),
            OFFERS,
            ("rdma.smc_r = True", "no eRDMA", "leave it out"),
        ),
        (
            asks(rdma=Rdma(), pool="lingjun", network=ExclusiveEni()),
            SAFE,
            ("rdma", "'restricted'", "athanor:pod_security"),
        ),
        # room
        (asks(pool="cpu"), OFFERS, ("resources.gpus", "have no GPUs", "role gpu")),
        (asks(pods=5, pool="train"), OFFERS, ("pods = 5", "4 nodes with 1 such pods", "raise the pool's maximum")),
        (
            asks(pods=5, pool="train", network=HostNetwork(), resources=Resources()),
            OFFERS,
            ("pods = 5", "4 nodes with 1 such pods", "raise"),
        ),
        (
            asks(pods=125, pool="alone", network=ExclusiveEni(), resources=Resources()),
            OFFERS,
            ("pods = 125", "4 nodes with 31 such pods", "raise"),
        ),
        (
            asks(resources=Resources(gpus=16)),
            OFFERS,
            ("resources.gpus = 16", "no pool", "'train' has 8 GPUs", "add a pool"),
        ),
        (asks(resources=Resources(gpus=1)), only(CPU, SLICED), ("no pool", "have no GPUs", "by time_slicing")),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(asked, offers, words):
    with pytest.raises(RefusalError) as caught:
        check_placement(asked, offers)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("asked", "offers"),
    [
        (asks(network=TRUNK), SAFE),
        (asks(network=TRUNK, pool="train"), SAFE),
        (asks(network=ExclusiveEni(), pool="alone"), SAFE),
        (asks(network=HostNetwork()), PlatformOffers(pod_security="privileged")),
        (asks(rdma=Rdma(smc_r=True), pool="erdma"), SAFE),
        (asks(resources=Resources(gpus=SharedGpu()), pods=128), SAFE),
        (asks(pods=4, pool="train"), SAFE),
        # A cluster whose nodes the platform does not know.
        (asks(pods=1000, resources=Resources(gpus=3)), PlatformOffers()),
    ],
)
def test_what_can_be_is_not_refused(asked, offers):
    check_placement(asked, offers)


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.integers(0, 6))
def test_a_pool_takes_a_job_exactly_when_it_has_gpus_enough(pods, gpus, nodes):
    offers = only(dataclasses.replace(TRAIN, max_nodes=nodes))
    asked = asks(pods=pods, resources=Resources(gpus=gpus), pool="train")
    fits = pods * gpus <= nodes * 8
    if fits:
        check_placement(asked, offers)
    else:
        with pytest.raises(RefusalError, match="raise the pool's maximum"):
            check_placement(asked, offers)
