"""Modes of a pod's network: Terway's shared, trunk and exclusive interfaces, or the network of the node.

Sources: AliyunContainerService/terway, docs/terway-trunk.md and docs/exclusive-eni-node-pool.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import DnsLabel, matching

if TYPE_CHECKING:
    from infra.manifests import Manifest

POD_NETWORKING_LABEL = "athanor.dev/pod-networking"
"""Label of pods that a PodNetworking serves. Terway's webhook matches labels; an annotation alone does nothing."""
EXCLUSIVE_ENI_LABEL = "k8s.aliyun.com/exclusive-mode-eni-type"
EXCLUSIVE_ENI_VALUE = "eniOnly"
"""Node label and value that make Terway give every pod of a node an interface of its own, from the node's birth on."""
_MAXIMUM_PORT = 65535
_Interface = Annotated[
    str,
    matching(
        r"(?!\.{1,2}\Z)[!-.0-9;-~]{1,15}",  # dev_valid_name of the kernel; a colon marks an alias
        "is not the name of a Linux network interface. Fix: write it as `ip link` prints it, such as eth0",
    ),
]


@checked("network")
@dataclass(frozen=True, kw_only=True)
class SharedEni:
    """The platform's ordinary pod network; on ACK addresses of shared elastic network interfaces."""


@checked("network")
@dataclass(frozen=True, kw_only=True)
class TrunkEni:
    """An interface with its own vswitches and security groups, on nodes that other pods share. ACK only."""

    pod_networking: DnsLabel
    """Name of the PodNetworking, declared under alicloud.pod_networkings."""


@checked("network")
@dataclass(frozen=True, kw_only=True)
class ExclusiveEni:
    """A whole network interface per pod, on a pool with `eni: exclusive`. ACK only.

    No NetworkPolicy reaches such pods: only security groups separate them.
    """


@checked("network")
@dataclass(frozen=True, kw_only=True)
class HostNetwork:
    """The node's own network: no isolation, no pod address; one pod of a workload per node.

    No NetworkPolicy reaches such pods. The namespace's Pod Security level must be `privileged`.
    """

    interface: _Interface = "eth0"
    """The node's interface that collectives use."""
    port_offset: int = 0
    """Added to every port of the workload: two workloads that shall share nodes need different ones."""

    def __post_init__(self) -> None:
        """Refuse an offset that leaves the range of ports."""
        if not 0 <= self.port_offset <= 20_000:
            raise RefusalError("network.port_offset", self.port_offset, "must be 0 to 20000", "choose a smaller offset")


PodNetwork = SharedEni | TrunkEni | ExclusiveEni | HostNetwork


def pod_labels(network: PodNetwork) -> dict[str, str]:
    """Return the labels that a pod must have."""
    return {POD_NETWORKING_LABEL: network.pod_networking} if isinstance(network, TrunkEni) else {}


def node_selector(network: PodNetwork) -> dict[str, str]:
    """Return the entries that a pod's nodeSelector must have."""
    return {EXCLUSIVE_ENI_LABEL: EXCLUSIVE_ENI_VALUE} if isinstance(network, ExclusiveEni) else {}


def spec_fields(network: PodNetwork) -> Manifest:
    """Return further fields of the pod spec."""
    if isinstance(network, HostNetwork):
        # ClusterFirst, the default, means the node's DNS there: no Service and no peer would be found.
        return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {}


def port(network: PodNetwork, number: int) -> int:
    """Return the port that a workload uses on this network.

    Raises:
        RefusalError: the network's offset carries it beyond the last port.
    """
    offset = network.port_offset if isinstance(network, HostNetwork) else 0
    if number + offset > _MAXIMUM_PORT:
        raise RefusalError(
            "network.port_offset",
            offset,
            f"port {number} of the workload would be {number + offset}, beyond {_MAXIMUM_PORT}",
            f"use at most {_MAXIMUM_PORT - number}",
        )
    return number + offset


def interface(network: PodNetwork) -> str:
    """Return the interface that collectives use."""
    return network.interface if isinstance(network, HostNetwork) else "eth0"


def without_network_policy(network: PodNetwork) -> bool:
    """Return whether no NetworkPolicy reaches the pods, so that the namespace's default-deny does not hold for them."""
    return isinstance(network, ExclusiveEni | HostNetwork)
