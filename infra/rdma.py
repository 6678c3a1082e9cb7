"""RDMA for pods: the device they ask for, Terway kept off the RDMA interfaces, and NCCL's environment.

Sources: AliyunContainerService/alibabacloud-erdma-controller, README and docs/erdma-benchmark;
AliyunContainerService/terway, docs/dynamic-config.md and docs/erdma-coexistence.md; ACK, "Lingjun node pools".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.manifests import Manifest, resource
from infra.pod_network import interface

if TYPE_CHECKING:
    from infra.instance_types import InstanceType, RdmaKind
    from infra.pod_network import PodNetwork

TERWAY_CONFIG = "athanor-erdma"
"""Name of the ConfigMap that Terway merges into its own configuration on the nodes that name it."""
_DEVICES = {"erdma": "aliyun/erdma", "lingjun": "rdma/hca"}


@dataclass(frozen=True, kw_only=True)
class Rdma:
    """A request for the RDMA device of the pool that a workload names."""

    smc_r: bool = False
    """Whether TCP connections of the pods also become RDMA (SMC-R); eRDMA only."""


def terway_config_manifest() -> Manifest:
    """Return the ConfigMap that lets Terway manage only the interfaces it made itself.

    Without it an older Terway takes the RDMA interfaces for pods. It is a JSON merge patch for the nodes with the
    label of `rdma_node_labels`; patching Terway's own ConfigMap would replace its whole configuration, one string.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": TERWAY_CONFIG, "namespace": "kube-system"},
        "data": {"eni_conf": json.dumps({"eni_tag_filter": {"creator": "terway"}})},
    }


def rdma_node_labels(kind: RdmaKind) -> dict[str, str]:
    """Return the labels that nodes of a pool need for its kind of RDMA, from their birth on."""
    return {"terway-config": TERWAY_CONFIG} if kind == "erdma" else {}


class TerwayForRdma(pulumi.ComponentResource):
    """Terway's configuration for nodes with eRDMA.

    It must exist before the first such node: Terway reads it when it starts there, fails without it, and never gives
    back an interface it has taken. So pools with eRDMA and the eRDMA controller depend on `config`.
    """

    config: pulumi.CustomResource

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:TerwayForRdma", name, None, opts)
        self.config = resource("terway-config", terway_config_manifest(), pulumi.ResourceOptions(parent=self))
        self.register_outputs({"config": TERWAY_CONFIG})


def device_limits(kind: RdmaKind) -> dict[str, str]:
    """Return what a container asks for to get the RDMA devices of its node."""
    return {_DEVICES[kind]: "1"} if kind in _DEVICES else {}


def added_capabilities(kind: RdmaKind) -> list[str]:
    """Return the capabilities that a container needs beside the device: they break Pod Security `restricted`."""
    return ["IPC_LOCK", "SYS_RESOURCE"] if kind == "lingjun" else []


def pod_annotations(rdma: Rdma | None) -> dict[str, str]:
    """Return the annotations of a pod that asks for RDMA."""
    return {"network.alibabacloud.com/erdma-smcr": "true"} if rdma and rdma.smc_r else {}


def nccl_environment(facts: InstanceType | None, network: PodNetwork, rdma: RdmaKind) -> dict[str, str]:
    """Return NCCL's variables for pods on an instance type; what NCCL finds out by itself is left to it.

    Args:
        facts: The instance type; None for Lingjun machines.
        network: The pods' network.
        rdma: The RDMA device that the pods ask for.
    """
    environment = {"NCCL_SOCKET_IFNAME": interface(network)}
    if rdma == "lingjun":
        return {**environment, "NCCL_IB_HCA": "mlx5"}
    if rdma == "erdma":
        # Behind PCIe switches the distance between GPU and interface exceeds NCCL's limit for direct transfers.
        return environment if facts and facts.nvlink else {**environment, "NCCL_NET_GDR_LEVEL": "SYS"}
    # An interface that the pod sees but did not ask for (on the host's network) must not be tried.
    return {**environment, "NCCL_IB_DISABLE": "1"} if facts and facts.rdma != "none" else environment
