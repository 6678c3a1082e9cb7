"""Pods get the RDMA device of their pool, Terway leaves its interfaces alone, NCCL hears what it cannot find out."""

from __future__ import annotations

import json
from itertools import product

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES, instance_type
from infra.offers import node_facts
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni
from infra.rdma import Rdma, TerwayForRdma, added_capabilities, device_limits, nccl_environment, rdma_node_labels
from tests.recording_engine import record
from tests.tables import each_row

PLAIN = node_facts([instance_type("ecs.ebmgn7e.32xlarge")])
PCIE_WITH_RDMA = node_facts([instance_type("ecs.gn8is-8x.32xlarge")])
NVLINK_WITH_RDMA = node_facts([instance_type("ecs.gn8v-8x.48xlarge")])


@each_row(
    ("kind", "limits", "capabilities"),
    [
        ("none", {}, []),
        ("erdma", {"aliyun/erdma": "1"}, []),
        ("lingjun", {"rdma/hca": "1"}, ["IPC_LOCK", "SYS_RESOURCE"]),
    ],
)
def test_a_kind_of_rdma_is_a_device_and_what_it_needs(kind, limits, capabilities):
    assert device_limits(kind) == limits
    assert added_capabilities(kind) == capabilities


def test_smc_r_is_refused_with_both_reasons():
    assert Rdma() == Rdma(smc_r=False)
    with pytest.raises(RefusalError) as caught:
        Rdma(smc_r=True)
    assert caught.value.field == "rdma.smc_r"
    assert all(word in caught.value.limit for word in ("privileged init container", "OFED mode", "no SMC-R"))
    assert "omit it" in caught.value.fix


def test_nodes_with_erdma_name_the_configuration_that_exists():
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        TerwayForRdma("terway-for-rdma", pulumi.ResourceOptions(provider=provider))

    recording = record(program, preview=False)
    config = recording.one("terway-config", "ConfigMap")
    assert config.parent == recording.one("terway-for-rdma").urn
    assert config.inputs["metadata"]["namespace"] == "kube-system"
    assert rdma_node_labels("erdma") == {"terway-config": config.inputs["metadata"]["name"]}
    assert rdma_node_labels("none") == rdma_node_labels("lingjun") == {}
    # A merge patch: one key, so that nothing else of Terway's configuration changes.
    assert json.loads(config.inputs["data"]["eni_conf"]) == {"eni_tag_filter": {"creator": "terway"}}


OR_FAILURE = {"NCCL_NET": "IB", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
OF_PAI = {
    "NCCL_IB_TC": "136",
    "NCCL_IB_SL": "5",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_IB_HCA": "mlx5",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_IB_QPS_PER_CONNECTION": "8",
    "NCCL_NET_PLUGIN": "none",
}


@each_row(
    ("node", "rdma", "added"),
    [
        (PLAIN, "none", {}),
        (PCIE_WITH_RDMA, "none", {"NCCL_IB_DISABLE": "1"}),
        (PCIE_WITH_RDMA, "erdma", {**OR_FAILURE, "NCCL_NET_GDR_LEVEL": "SYS"}),
        (NVLINK_WITH_RDMA, "erdma", OR_FAILURE),
        (None, "lingjun", {**OR_FAILURE, **OF_PAI}),
    ],
)
def test_nccl_is_configured_where_it_cannot_find_out(node, rdma, added):
    assert nccl_environment(node, SharedEni(), rdma) == {"NCCL_SOCKET_IFNAME": "=eth0", **added}


@each_row("node", [PCIE_WITH_RDMA, NVLINK_WITH_RDMA])
def test_the_distance_of_direct_transfers_is_the_users_to_say(node):
    assert nccl_environment(node, SharedEni(), "erdma", "PHB")["NCCL_NET_GDR_LEVEL"] == "PHB"
    with pytest.raises(RefusalError, match=r"rdma.gpudirect_level = 'far'.*SYS"):
        Rdma(gpudirect_level="far")


@each_row(
    ("network", "rdma"),
    product([SharedEni(), ExclusiveEni(), HostNetwork(interface="bond0")], ["none", "erdma", "lingjun"]),
)
def test_every_type_has_an_environment_without_contradictions(network, rdma):
    for facts in INSTANCE_TYPES.values():
        environment = nccl_environment(node_facts([facts]), network, rdma)
        # "=": an exact name. Without it eth0 is a prefix, and eth01 fits, too.
        assert environment["NCCL_SOCKET_IFNAME"] == ("=bond0" if isinstance(network, HostNetwork) else "=eth0")
        assert ("NCCL_IB_DISABLE" in environment) == (rdma == "none" and facts.rdma != "none")
        # A job that asked for RDMA gets it or fails; it never falls back to TCP silently.
        assert (environment.get("NCCL_NET") == "IB") == (rdma != "none")
        assert all(isinstance(value, str) and value for value in environment.values())
