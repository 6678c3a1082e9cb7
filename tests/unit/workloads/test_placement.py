"""Where pods run and on which network: every combination is either written down rightly or refused with the reason."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.offers import GPU_TAINT, NodeFacts, PlatformOffers, Taint
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.rdma import Rdma
from infra.settings.gpu import TimeSlicing
from tests.tables import each_row
from tests.unit.workloads.job_cases import gpu_pool
from workloads.accelerators import SharedGpu
from workloads.placement import (
    Placement,
    capabilities,
    check_placement,
    devices,
    gpu_access,
    network_environment,
    placed,
)
from workloads.pods import GpuAccess
from workloads.resources import Resources

if TYPE_CHECKING:
    from infra.offers import PoolOffer

GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
TRAIN = gpu_pool(
    "ecs.ebmgn7e.32xlarge", zones=("cn-hangzhou-i",), taints=(GPU_TAINT, Taint(key="team", value="vision"))
)
ALONE = dataclasses.replace(TRAIN, name="alone", eni="exclusive", exclusive_pods=31)
ERDMA = gpu_pool("ecs.gn8is-8x.32xlarge", name="erdma", rdma="erdma", taints=TRAIN.taints)
LINGJUN = gpu_pool(
    "ecs.gn8v-8x.48xlarge", name="lingjun", rdma="lingjun", eni="exclusive", exclusive_pods=31, taints=TRAIN.taints
)
SLICED = dataclasses.replace(TRAIN, name="sliced", sharing=TimeSlicing(replicas=4), shares_per_gpu=4)
CPU = gpu_pool("ecs.g7.2xlarge", name="cpu", role="cpu")
ELSEWHERE = dataclasses.replace(TRAIN, name="elsewhere", terway=False)
OFFERS = PlatformOffers(
    pools=(TRAIN, ALONE, ERDMA, LINGJUN, SLICED, CPU), pod_networkings=("storage",), pod_security="privileged"
)
SAFE = dataclasses.replace(OFFERS, pod_security="restricted")
USUAL = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0", "NCCL_DEBUG": "WARN"}
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
        assert network_environment(asked, offers) == USUAL


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
    assert (environment["GLOO_SOCKET_IFNAME"], environment["NCCL_SOCKET_IFNAME"]) == ("bond0", "=bond0")


@each_row(
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
    variables = network_environment(asked, OFFERS)
    assert variables.items() >= {**USUAL, **environment, "NCCL_NET": "IB", "NCCL_DEBUG": "INFO"}.items()


def test_lingjun_rdma_needs_the_hosts_network_or_ipv6():
    pool = dataclasses.replace(LINGJUN, rdma_on_host_network_only=True)
    check_placement(asks(rdma=Rdma(), pool="lingjun", network=HostNetwork(interface="bond0")), only(pool))
    check_placement(asks(pool="lingjun", network=ExclusiveEni()), only(pool))
    with pytest.raises(RefusalError) as caught:
        check_placement(asks(rdma=Rdma(), pool="lingjun", network=ExclusiveEni()), only(pool))
    assert all(word in str(caught.value) for word in ("IPv6", "HostNetwork(interface=…)", "lingjun.ipv6")), caught.value


def test_rdma_that_nobody_asked_for_is_not_used():
    asked = asks(pool="erdma")
    assert devices(asked, OFFERS) == {}
    assert network_environment(asked, OFFERS)["NCCL_IB_DISABLE"] == "1"
    # Without a GPU there is no NCCL.
    assert "NCCL_IB_DISABLE" not in network_environment(asks(pool="erdma", resources=Resources()), OFFERS)


@each_row(
    ("asked", "offers", "words"),
    [
        (asks(pool="trian"), OFFERS, ("pool = 'trian'", "did you mean train?")),
        (asks(pool="train"), PlatformOffers(), ("pool = 'train'", "there is none to choose from")),
        # networks
        (asks(pool="alone"), OFFERS, ("network = 'SharedEni'", "its own network interface", "ExclusiveEni")),
        (asks(network=TRUNK), only(ELSEWHERE), ("network = 'TrunkEni'", "not ACK nodes", "omit network")),
        (asks(network=TRUNK), PlatformOffers(), ("network = 'TrunkEni'", "not ACK nodes", "omit network")),
        (asks(network=ExclusiveEni()), only(ELSEWHERE), ("network = 'ExclusiveEni'", "not ACK nodes")),
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
            asks(rdma=Rdma(), pool="lingjun", network=ExclusiveEni()),
            SAFE,
            ("rdma", "'restricted'", "athanor:pod_security"),
        ),
        # room
        (asks(pool="cpu"), OFFERS, ("resources.gpus", "have no GPUs", "a pool with GPUs")),
        (
            asks(pods=5, pool="train"),
            OFFERS,
            ("pods = 5", "4 nodes, each of which holds 1 of these pods", "raise the pool's maximum"),
        ),
        (
            asks(pods=5, pool="train", network=HostNetwork(), resources=Resources()),
            OFFERS,
            ("pods = 5", "4 nodes, each of which holds 1 of these pods", "raise"),
        ),
        (
            asks(pods=125, pool="alone", network=ExclusiveEni(), resources=Resources()),
            OFFERS,
            ("pods = 125", "4 nodes, each of which holds 31 of these pods", "raise"),
        ),
        (
            asks(resources=Resources(gpus=16)),
            OFFERS,
            ("resources.gpus = 16", "no pool", "'train' has 8 GPUs", "add a pool"),
        ),
        (
            asks(resources=Resources(cpu="9"), pool="cpu"),
            OFFERS,
            ("resources.cpu = '9'", "largest node of 'cpu' has 8", "larger nodes"),
        ),
        (
            asks(resources=Resources(memory="33Gi"), pool="cpu"),
            OFFERS,
            ("resources.memory = '33Gi'", "'cpu' has 32Gi", "request less"),
        ),
        (asks(resources=Resources(cpu="193")), OFFERS, ("resources.cpu = '193'", "has 192")),
        (asks(resources=Resources(cpu="129", gpus=8)), only(TRAIN), ("resources.gpus = 8", "'train' has 128")),
        (asks(resources=Resources(gpus=1)), only(CPU, SLICED), ("no pool", "have no GPUs", "by time slicing")),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(asked, offers, words):
    with pytest.raises(RefusalError) as caught:
        check_placement(asked, offers)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@each_row(
    ("asked", "offers"),
    [
        (asks(network=TRUNK), SAFE),
        (asks(network=TRUNK, pool="train"), SAFE),
        (asks(network=ExclusiveEni(), pool="alone"), SAFE),
        (asks(network=HostNetwork()), PlatformOffers(pod_security="privileged")),
        (asks(rdma=Rdma(), pool="erdma"), SAFE),
        (asks(resources=Resources(gpus=SharedGpu()), pods=128), SAFE),
        (asks(pods=4, pool="train"), SAFE),
        (asks(resources=Resources(cpu="8", memory="32Gi"), pool="cpu"), SAFE),
        (asks(resources=Resources(cpu="193")), only(TRAIN, ELSEWHERE)),
        (asks(resources=Resources(cpu="193")), only(TRAIN, dataclasses.replace(LINGJUN, instance_types=(), node=None))),
        # A cluster whose nodes the platform does not know.
        (asks(pods=1000, resources=Resources(gpus=3)), PlatformOffers()),
    ],
)
def test_what_can_be_is_not_refused(asked, offers):
    check_placement(asked, offers)


def test_a_type_of_a_later_release_is_what_its_offer_says():
    """The owning stack knows the type; this code, in another team's program, does not have to."""
    node = NodeFacts(largest_vcpus=64, largest_memory_gib=512, rdma="erdma", nvlink=True)
    later = dataclasses.replace(ERDMA, instance_types=("ecs.gn99.16xlarge",), node=node)
    asked = asks(pool="erdma", rdma=Rdma())
    check_placement(asked, only(later))
    assert "NCCL_NET_GDR_LEVEL" not in network_environment(asked, only(later))
    chosen = network_environment(asks(pool="erdma", rdma=Rdma(gpudirect_level="SYS")), only(later))
    assert chosen["NCCL_NET_GDR_LEVEL"] == "SYS"
    with pytest.raises(RefusalError, match="the largest node of 'erdma' has 64"):
        check_placement(asks(pool="erdma", resources=Resources(cpu="65", gpus=8)), only(later))


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.integers(0, 6))
def test_a_pool_takes_a_job_exactly_when_it_has_gpus_enough_or_is_turned_off(pods, gpus, nodes):
    offers = only(dataclasses.replace(TRAIN, max_nodes=nodes))
    asked = asks(pods=pods, resources=Resources(gpus=gpus), pool="train")
    if not nodes or pods * gpus <= nodes * 8:
        check_placement(asked, offers)
    else:
        with pytest.raises(RefusalError, match="raise the pool's maximum"):
            check_placement(asked, offers)


@each_row("gpus", [0, 1, SharedGpu()])
def test_pods_with_gpus_are_of_the_platforms_runtime_class(gpus):
    offers = PlatformOffers(gpu_runtime_class="nvidia")
    asked = asks(resources=Resources(gpus=gpus))
    assert placed(SPEC, asked, offers).get("runtimeClassName") == ("nvidia" if gpus else None)
    assert "runtimeClassName" not in placed(SPEC, asked, PlatformOffers())


def test_only_shares_of_gpus_go_through_mps():
    offers = PlatformOffers(mps=True, gpus_by_variable=False)
    assert gpu_access(asks(resources=Resources(gpus=SharedGpu())), offers) == GpuAccess(
        by_variable=False, through_mps=True
    )
    assert not gpu_access(asks(resources=Resources()), offers).through_mps
    assert not gpu_access(asks(resources=Resources(gpus=SharedGpu())), PlatformOffers()).through_mps
