"""RDMA for pods: the device that they request, Terway's exclusion of RDMA interfaces, and NCCL's environment.

Sources: AliyunContainerService/alibabacloud-erdma-controller 0.2.11, README and docs/erdma-benchmark;
AliyunContainerService/terway, docs/dynamic-config.md and docs/erdma-coexistence.md; ACK, "Lingjun node pools" and "Use
RDMA networks for pods on Lingjun nodes"; NVIDIA, NCCL 2.30, "Environment Variables", and its source where named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pulumi

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.manifests import Manifest, resource
from infra.pod_network_modes import interface

if TYPE_CHECKING:
    from infra.instance_types import RdmaKind
    from infra.offers import NodeFacts
    from infra.pod_network_modes import PodNetwork

GpuDirectLevel = Literal["LOC", "PIX", "PXB", "PHB", "SYS"]
"""Never, below one PCIe switch, below several, on one NUMA node, always (NCCL, "Environment Variables")."""
TERWAY_CONFIG = "athanor-erdma"
"""Name of the ConfigMap that Terway merges into its own configuration on the nodes that name it."""
_DEVICES = {"erdma": "aliyun/erdma", "lingjun": "rdma/hca"}
ERDMA_PER_INTERFACE = 200
"""Number of times that pods of a node can ask for each of its eRDMA interfaces (the controller's device plugin)."""
_RDMA_OR_FAILURE = {
    # Without a library or a device NCCL takes TCP, and says so at INFO only (src/misc/ibvsymbols.cc). With its network
    # named it fails instead: "Failed to initialize any NET plugin" (src/plugin/net.cc).
    "NCCL_NET": "IB",
    # So that the log shows which devices it uses, and whether GPUs reach them directly: `via NET/IB/0/GDRDMA`.
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET",
}
_LINGJUN = {
    "NCCL_IB_HCA": "mlx5",
    # Traffic class and service level that Alibaba Cloud's switches map to the lossless queue; others lose speed.
    "NCCL_IB_TC": "136",
    "NCCL_IB_SL": "5",
    # RoCE v2.
    "NCCL_IB_GID_INDEX": "3",
    # 4.096 us * 2^22, which is 17 s; NCCL's own is 20, for 4 s.
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_IB_QPS_PER_CONNECTION": "8",
    # Not a plugin that an image brings along, such as NVIDIA's with HPC-X.
    "NCCL_NET_PLUGIN": "none",
}
"""Environment that PAI sets on all its Lingjun machines (PAI, "RDMA: High-performance networking for distributed
training", read on 22 November 2026). ACK's own page names no variable; that its machines need the same ones is an
assumption."""


@checked("rdma")
@dataclass(frozen=True, kw_only=True)
class Rdma:
    """A request for the RDMA device of the pool that a workload names."""

    smc_r: bool = False
    """Whether TCP connections of the pods also become RDMA (SMC-R). Refused: no pool of the platform has it."""
    gpudirect_level: GpuDirectLevel | None = None
    """How far apart GPU and interface may be for transfers that bypass the host's memory (NCCL_NET_GDR_LEVEL). Default:
    SYS over eRDMA on machines without NVLink, elsewhere NCCL's own limit. The log says which it used: `GDRDMA`."""

    def __post_init__(self) -> None:
        """Refuse SMC-R, with which a pod would not be admitted or not start.

        On creation of a pod with its annotation the controller's webhook adds an init container that is privileged
        (internal/webhook/mutating.go). Its driver mode for GPU nodes, OFED, neither loads the kernel's SMC module nor
        announces SMC-R (internal/drivers/ofed.go; default.go and compat.go do both), and the platform uses that mode.

        Raises:
            RefusalError: it was asked for.
        """
        if self.smc_r:
            limit = (
                "needs a privileged init container, which Pod Security allows only at level privileged, and a driver"
                " mode that NCCL cannot use: the eRDMA controller runs in OFED mode here, which has no SMC-R"
            )
            raise RefusalError("rdma.smc_r", self.smc_r, limit, "omit it: NCCL uses RDMA without it")


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
    """Return the resources that a container requests for the RDMA devices of its node."""
    return {_DEVICES[kind]: "1"} if kind in _DEVICES else {}


def added_capabilities(kind: RdmaKind) -> list[str]:
    """Return the capabilities that a container needs as well as the device: they break Pod Security `restricted`."""
    return ["IPC_LOCK", "SYS_RESOURCE"] if kind == "lingjun" else []


def nccl_environment(
    node: NodeFacts | None, network: PodNetwork, rdma: RdmaKind, gpudirect_level: GpuDirectLevel | None = None
) -> dict[str, str]:
    """Return NCCL's variables for pods with GPUs; what NCCL finds out by itself is left to it.

    Args:
        node: The pool's node; None for Lingjun machines and where the pod may run anywhere.
        network: The pods' network.
        rdma: The RDMA device that the pods ask for.
        gpudirect_level: What the user says of it.
    """
    environment = socket_environment(network)
    if rdma != "none":
        level = {"NCCL_NET_GDR_LEVEL": gpudirect_level} if gpudirect_level else {}
        return {**environment, **_RDMA_OR_FAILURE, **_of_kind(node, rdma), **level}
    # An interface that the pod sees but did not ask for (on the host's network) must not be tried.
    return {**environment, "NCCL_IB_DISABLE": "1"} if node and node.rdma != "none" else environment


def socket_environment(network: PodNetwork) -> dict[str, str]:
    """Return the interface of NCCL's connections over TCP: this one alone, where without "=" eth0 is also eth01."""
    return {"NCCL_SOCKET_IFNAME": f"={interface(network)}"}


def _of_kind(node: NodeFacts | None, rdma: RdmaKind) -> dict[str, str]:
    if rdma == "lingjun":
        return _LINGJUN
    # NCCL compares the PCIe distance of GPU and interface with PXB (commit 04cdb808, src/graph/paths.cc,
    # ncclTopoCheckGdr), and machines without NVLink have more: alibabacloud-erdma-controller 0.2.11,
    # docs/erdma-benchmark, measured 26.6 GB/s with SYS and 14.7 without. With NVLink NCCL takes the distance of the GPU
    # that is closest to the interface, and reaches it over NVLink (PXN, same function). PAI, which sets NCCL up for
    # each type, leaves the level out on all with eRDMA, also on ebmgn7v and ebmgn8v, which have NVLink ("eRDMA: Use
    # high-performance networks for distributed training", 29 October 2025). No document has the PCIe layout of such
    # machines, hence Rdma.gpudirect_level.
    return {} if node and node.nvlink else {"NCCL_NET_GDR_LEVEL": "SYS"}
