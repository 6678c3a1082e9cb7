"""Pods get the RDMA device of their pool, Terway leaves its interfaces alone, NCCL hears what it cannot find out."""

from __future__ import annotations

import json

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.instance_types import INSTANCE_TYPES, instance_type
from infra.pod_network import ExclusiveEni, HostNetwork, SharedEni
from infra.rdma import (
    Rdma,
    TerwayForRdma,
    added_capabilities,
    device_limits,
    nccl_environment,
    pod_annotations,
    rdma_node_labels,
)
from tests.recording_engine import record

PLAIN = instance_type("ecs.ebmgn7e.32xlarge")
PCIE_WITH_RDMA = instance_type("ecs.gn8is-8x.32xlarge")
NVLINK_WITH_RDMA = instance_type("ecs.gn8v-8x.48xlarge")


@pytest.mark.parametrize(
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


def test_smc_r_is_asked_for_by_annotation():
    assert pod_annotations(None) == pod_annotations(Rdma()) == {}
    assert pod_annotations(Rdma(smc_r=True)) == {"network.alibabacloud.com/erdma-smcr": "true"}


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


@pytest.mark.parametrize(
    ("facts", "rdma", "added"),
    [
        (PLAIN, "none", {}),
        (PCIE_WITH_RDMA, "none", {"NCCL_IB_DISABLE": "1"}),
        (PCIE_WITH_RDMA, "erdma", {"NCCL_NET_GDR_LEVEL": "SYS"}),
        (NVLINK_WITH_RDMA, "erdma", {}),
        (NVLINK_WITH_RDMA, "lingjun", {"NCCL_IB_HCA": "mlx5"}),
    ],
)
def test_nccl_is_told_what_it_cannot_find_out(facts, rdma, added):
    assert nccl_environment(facts, SharedEni(), rdma) == {"NCCL_SOCKET_IFNAME": "eth0", **added}


@pytest.mark.parametrize("network", [SharedEni(), ExclusiveEni(), HostNetwork(interface="bond0")])
@pytest.mark.parametrize("rdma", ["none", "erdma", "lingjun"])
def test_every_type_has_an_environment_without_contradictions(network, rdma):
    for facts in INSTANCE_TYPES.values():
        environment = nccl_environment(facts, network, rdma)
        assert environment["NCCL_SOCKET_IFNAME"] == ("bond0" if isinstance(network, HostNetwork) else "eth0")
        assert ("NCCL_IB_DISABLE" in environment) == (rdma == "none" and facts.rdma != "none")
        assert all(isinstance(value, str) and value for value in environment.values())
