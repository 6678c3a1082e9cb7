"""GPU nodes that exist only in the API server, kept alive by kwok: scheduling without hardware."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.gpu.sharing import advertised
from infra.instance_types import instance_type
from infra.kubernetes.quantities import gib_quantity
from infra.manifests import Manifest, resource
from infra.node_labels import POOL_LABEL, SIMULATED_LABEL, ZONE_LABEL
from infra.offers import GPU_TAINT
from infra.pools import SIMULATED_TAINT, simulated_pool_name, simulated_zones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.cluster import SimulatedNodes
    from infra.settings.gpu import Sharing

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
_PODS_PER_NODE = 110


def simulated_node_manifest(name: str, type_name: str, zone: str, sharing: Sharing | None = None) -> Manifest:
    """Return a Node with the capacity of an instance type, tainted so that no real pod lands on it by accident."""
    facts = instance_type(type_name)
    gpu_labels: dict[str, str] = {}
    taints = [SIMULATED_TAINT]
    capacity = {
        "cpu": str(facts.vcpus),
        "memory": gib_quantity(facts.memory_gib),
        "pods": str(min(_PODS_PER_NODE, facts.shared_eni_pods)),
        **advertised(sharing, facts),
    }
    if facts.gpus:
        taints.append(GPU_TAINT)
        gpu_labels = {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(facts.gpus),
            "nvidia.com/gpu.memory": str(facts.gpu_memory_gib * 1024),
        }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {KWOK_ANNOTATION: "fake", "pulumi.com/skipAwait": "true"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": facts.name,
                **gpu_labels,
                SIMULATED_LABEL: "true",
                POOL_LABEL: simulated_pool_name(facts.name),
                ZONE_LABEL: zone,
            },
        },
        "spec": {"taints": [asdict(taint) for taint in taints]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


@dataclass(frozen=True, kw_only=True)
class SimulatedGpuNodesArgs:
    """Arguments of SimulatedGpuNodes."""

    groups: Sequence[SimulatedNodes]
    sharing: Sharing | None = None
    """Sharing that a device plugin would announce there; nobody runs on a simulated node to do it."""


class SimulatedGpuNodes(pulumi.ComponentResource):
    """The simulated nodes of a stack."""

    def __init__(self, name: str, args: SimulatedGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:SimulatedGpuNodes", name, None, opts)
        for group in args.groups:
            zones = simulated_zones(group.count)
            for index in range(group.count):
                node = f"sim-{simulated_pool_name(group.instance_type)}-{index}"
                manifest = simulated_node_manifest(node, group.instance_type, zones[index % len(zones)], args.sharing)
                resource(node, manifest, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})
