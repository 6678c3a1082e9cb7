"""GPU sharing: node labels on ACK, the configuration of NVIDIA's device plugin elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError, choices
from infra.settings.gpu import Cgpu, Mig, Mps, TimeSlicing, sharing_on_ack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.instance_types import InstanceType
    from infra.settings.gpu import Sharing

GPU_RESOURCE = "nvidia.com/gpu"
SHARED_GPU_RESOURCE = "nvidia.com/gpu.shared"
"""A replica of a time-sliced or MPS GPU. Its own name keeps jobs that expect a whole GPU away from such nodes."""
GPU_MEMORY_RESOURCE = "aliyun.com/gpu-mem"
"""GiB of GPU memory, where the sharing is Alibaba Cloud's."""
GPU_CORE_RESOURCE = "aliyun.com/gpu-core.percentage"

_SCHEDULE_LABEL = "ack.node.gpu.schedule"
_PLACEMENT_LABEL = "ack.node.gpu.placement"
_ISOLATION_VALUES = {"memory": "cgpu", "memory_and_cores": "core_mem", "mps": "mps", "none": "share"}


def mig_resource(profile: str) -> str:
    """Return the resource of a MIG instance under NVIDIA's `mixed` strategy: `nvidia.com/mig-1g.10gb`."""
    return f"nvidia.com/mig-{profile}"


def node_labels(sharing: Sharing | None) -> dict[str, str]:
    """Return the labels that make ACK share the GPUs of a node pool in this way; they act when a node is born.

    Source: ACK, "Enable scheduling features" (labels used by ACK to control GPUs).

    Raises:
        RefusalError: ACK does not manage this kind of sharing.
    """
    managed = sharing_on_ack(sharing)
    if managed is None:
        return {_SCHEDULE_LABEL: "default"}
    return {_SCHEDULE_LABEL: _ISOLATION_VALUES[managed.isolation], _PLACEMENT_LABEL: managed.placement}


def device_plugin_config(sharing: Sharing | None) -> dict[str, Any]:
    """Return the configuration file of NVIDIA's device plugin, as data.

    Source: NVIDIA/k8s-device-plugin, README, "Shared Access to GPUs" and "migStrategy".

    Raises:
        RefusalError: the sharing is Alibaba Cloud's own.
    """
    if isinstance(sharing, Cgpu):
        raise RefusalError(
            "gpu.sharing.mode",
            sharing.mode,
            "cGPU is part of ACK; NVIDIA's device plugin does not support it",
            "use time_slicing, mps or mig",
        )
    config: dict[str, Any] = {
        "version": "v1",
        "flags": {"migStrategy": "mixed" if isinstance(sharing, Mig) else "none"},
    }
    if isinstance(sharing, TimeSlicing | Mps):
        shared: dict[str, Any] = {
            "renameByDefault": True,
            # Two replicas may be the same GPU: a pod that asks for two would seem to have two GPUs.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": GPU_RESOURCE, "replicas": sharing.replicas}],
        }
        config["sharing"] = {"timeSlicing" if isinstance(sharing, TimeSlicing) else "mps": shared}
    return config


def mig_instances(facts: InstanceType, profile: str) -> int:
    """Return how many MIG instances of a profile one GPU of an instance type holds.

    Raises:
        RefusalError: its GPUs cannot be split so.
    """
    profiles: Mapping[str, int] = facts.gpu.mig_profiles if facts.gpu else {}
    instances = profiles.get(profile)
    if instances is None:
        fix = choices(profile, profiles) if profiles else "use time_slicing or mps, or omit sharing"
        raise RefusalError("gpu.sharing.profile", profile, f"the GPUs of {facts.name} have no such MIG profile", fix)
    return instances


def shares_per_gpu(sharing: Sharing | None, facts: InstanceType | None) -> int:
    """Return how many pods one GPU takes: its replicas or MIG instances; 1 if it is whole, 0 if pods ask for GiB.

    Raises:
        RefusalError: the GPUs cannot be split into the MIG profile.
    """
    if isinstance(sharing, TimeSlicing | Mps):
        return sharing.replicas
    if isinstance(sharing, Mig):
        return mig_instances(facts, sharing.profile) if facts else 0
    return 0 if isinstance(sharing, Cgpu) else 1


def advertised(sharing: Sharing | None, facts: InstanceType) -> dict[str, str]:
    """Return the resources that NVIDIA's device plugin announces on a node of an instance type.

    Raises:
        RefusalError: the GPUs cannot be split into the MIG profile.
    """
    if not facts.gpus:
        return {}
    if isinstance(sharing, Mig):
        name = mig_resource(sharing.profile)
    else:
        name = GPU_RESOURCE if sharing is None else SHARED_GPU_RESOURCE
    return {name: str(facts.gpus * shares_per_gpu(sharing, facts))}
