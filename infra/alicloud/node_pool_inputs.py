"""Inputs of ACK's node pools, derived from their settings alone."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from infra.alicloud.names import tags
from infra.alicloud.rdma_nodes import max_pods, unlocked_memory
from infra.errors import RefusalError
from infra.gpu.sharing import GPU_CORE_RESOURCE, node_labels
from infra.node_labels import POOL_LABEL, POOL_ROLE_LABEL
from infra.pod_network_modes import EXCLUSIVE_ENI_LABEL, EXCLUSIVE_ENI_VALUE
from infra.pools import pool_taints
from infra.rdma import ERDMA_PER_INTERFACE, device_limits, rdma_node_labels
from infra.settings.gpu import Cgpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.monitoring import MonitoringSettings
    from infra.settings.node_disks import DiskSettings
    from infra.settings.node_pools import NodePoolSettings

DRIVER_LABEL = "ack.aliyun.com/nvidia-driver-version"
CONTAINER_DISK = "/var/lib/container"
"""Path of ACK's images, containers and kubelet files on a data disk."""
ON_DEMAND = "NoSpot"
"""Strategy of a pool without spot nodes."""
MOST_MARKS = 11
"""Tags, labels and taints of an autoscaled pool together: the autoscaler finds labels and taints in tags, and ACK wants
fewer than 12 of them all (*Enable node auto scaling*, node labels)."""
_EXPECTED_RESOURCE = "k8s.io/cluster-autoscaler/node-template/resource/"
"""Tag by which the cluster-autoscaler knows what a new node of an empty pool would have (*Node auto scaling FAQ*)."""


def node_pool_inputs(
    settings: AlicloudSettings, pool: NodePoolSettings, monitoring: MonitoringSettings | None = None
) -> dict[str, Any]:
    """Return the inputs of a pool that do not come from another resource.

    Raises:
        RefusalError: it is autoscaled and has more tags, labels and taints than the autoscaler can read, or would never
            grow.
    """
    expected = _expected_resources(settings, pool)
    inputs: dict[str, Any] = {
        # Unique in a cluster.
        "node_pool_name": pool.name,
        "labels": [{"key": key, "value": value} for key, value in sorted(pool_labels(pool).items())],
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool_taints(pool)],
        "key_name": settings.key_pair,
        "tags": {**tags(settings), **{f"{_EXPECTED_RESOURCE}{name}": str(count) for name, count in expected.items()}},
        # Labels decide how a GPU node shares its GPUs: a change must not reach one on which jobs run.
        "update_nodes": pool.role != "gpu",
    }
    if pool.lingjun:
        return inputs | _lingjun(pool)
    _check_marks(pool, inputs)
    return {
        **inputs,
        "instance_types": list(pool.instance_types),
        "instance_charge_type": "PostPaid",
        "multi_az_policy": pool.zone_policy,
        "image_type": pool.image_type,
        **_size(pool),
        **_spot(pool),
        **_system_disk(pool.system_disk, protected=settings.protected),
        "data_disks": [_data_disk(disk, protected=settings.protected) for disk in pool.data_disks],
        **_metadata_tokens(settings),
        "management": _management(settings, pool),
        **(_rdma(pool, monitoring) if pool.rdma else {}),
    }


def _metadata_tokens(settings: AlicloudSettings) -> dict[str, Any]:
    """Ask for tokens: without them, who gets into a pod could ask for the credentials of the node's role.

    `optional` is the default of ACK itself, and is not sent: accounts for which ACK does not know it go without.
    """
    required = settings.metadata_tokens == "required"
    return {"instance_metadata_options": {"http_tokens": "required"}} if required else {}


def _expected_resources(settings: AlicloudSettings, pool: NodePoolSettings) -> dict[str, int]:
    """Return the resources of a new node, by name and amount, that the autoscaler must learn from tags of the pool.

    Both of ACK's simulate cpu, memory, ephemeral-storage, nvidia.com/gpu and aliyun.com/gpu-mem of nodes that do not
    exist yet, and nothing else; the cluster-autoscaler learns of other resources from tags, instant scaling does not
    (*Node auto scaling FAQ*, *FAQ about node instant scaling*).

    Raises:
        RefusalError: instant scaling would have to know it, and the pool may be empty.
    """
    unseen = _unseen_resources(pool) if pool.autoscaled else {}
    if settings.kubernetes.autoscaler == "cluster-autoscaler":
        return unseen
    if unseen and not pool.minimum:
        raise RefusalError(
            "alicloud.node_pools",
            pool.name,
            f"may be empty (minimum 0), and its pods ask for {next(iter(unseen))}: instant scaling does not expect that"
            " of a new node, so the pool would never grow",
            "set alicloud.kubernetes.autoscaler to cluster-autoscaler, or minimum to 1",
        )
    return {}


def _unseen_resources(pool: NodePoolSettings) -> dict[str, int]:
    unseen: dict[str, int] = {}
    if pool.rdma:
        [device] = device_limits("erdma")
        unseen[device] = ERDMA_PER_INTERFACE * min(facts.rdma_enis for facts in pool.facts)
    if isinstance(pool.gpu.sharing, Cgpu) and pool.gpu.sharing.isolation == "memory_and_cores":
        unseen[GPU_CORE_RESOURCE] = 100 * min(facts.gpus for facts in pool.facts)
    return unseen


def _check_marks(pool: NodePoolSettings, inputs: dict[str, Any]) -> None:
    counts = {name: len(inputs[name]) for name in ("tags", "labels", "taints")}
    total = sum(counts.values())
    if pool.autoscaled and total > MOST_MARKS:
        counted = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise RefusalError(
            "alicloud.node_pools",
            pool.name,
            f"has {counted} including the platform's own, but the autoscaler reads at most {MOST_MARKS} in total",
            "remove some of alicloud.tags or of the pool's labels and taints, or set minimum and maximum to the same"
            " number",
        )


def _rdma(pool: NodePoolSettings, monitoring: MonitoringSettings | None) -> dict[str, Any]:
    return {
        "pre_user_data": unlocked_memory(),
        "kubelet_configuration": {"max_pods": str(max_pods(pool, monitoring))},
    }


def pool_labels(pool: NodePoolSettings) -> dict[str, str]:
    """Return the labels of a pool's nodes; those that ACK acts on count from a node's birth."""
    labels = {POOL_LABEL: pool.name, POOL_ROLE_LABEL: pool.role}
    if pool.role == "gpu":
        labels |= node_labels(pool.gpu.sharing)
    if pool.driver_version:
        labels[DRIVER_LABEL] = pool.driver_version
    if pool.eni == "exclusive":
        labels[EXCLUSIVE_ENI_LABEL] = EXCLUSIVE_ENI_VALUE
    if pool.rdma:
        labels |= rdma_node_labels("lingjun" if pool.lingjun else "erdma")
    return {**pool.labels, **labels}


def _size(pool: NodePoolSettings) -> dict[str, Any]:
    # Always given: ACK would keep scaling a pool that no longer says anything about it.
    scaling = {
        "enable": pool.autoscaled,
        "min_size": pool.minimum,
        "max_size": pool.maximum,
        "type": _scaling_type(pool),
    }
    if pool.autoscaled:
        return {"scaling_config": scaling}
    return {"scaling_config": scaling, "desired_size": str(pool.maximum)}


def _scaling_type(pool: NodePoolSettings) -> Literal["cpu", "gpu", "spot"]:
    if pool.spot:
        return "spot"
    return "gpu" if pool.role == "gpu" else "cpu"


def _spot(pool: NodePoolSettings) -> dict[str, Any]:
    if pool.spot is None:
        return {"spot_strategy": ON_DEMAND}
    limits = pool.spot.price_limits
    inputs: dict[str, Any] = {
        "spot_strategy": "SpotWithPriceLimit" if limits else "SpotAsPriceGo",
        "spot_instance_remedy": True,
        "compensate_with_on_demand": pool.spot.on_demand_when_short,
        "on_demand_base_capacity": str(pool.spot.on_demand_base),
        "on_demand_percentage_above_base_capacity": str(pool.spot.on_demand_percentage_above_base),
    }
    if limits:
        inputs["spot_price_limits"] = [
            {"instance_type": name, "price_limit": _price(limits[name])} for name in pool.instance_types
        ]
    return inputs


def _price(price: float) -> str:
    return format(Decimal(str(price)).normalize(), "f")


def _system_disk(disk: DiskSettings, *, protected: bool) -> dict[str, Any]:
    return {
        "system_disk_category": disk.category,
        "system_disk_size": disk.size_gib,
        "system_disk_encrypted": _encrypted(disk, protected=protected),
        "system_disk_performance_level": _level(disk),
    }


def _data_disk(disk: DiskSettings, *, protected: bool) -> dict[str, Any]:
    inputs: dict[str, Any] = {
        "category": disk.category,
        "size": disk.size_gib,
        "encrypted": "true" if _encrypted(disk, protected=protected) else "false",
        "auto_format": "true",
        "file_system": "ext4",
        "mount_target": disk.mount_path or CONTAINER_DISK,
    }
    level = _level(disk)
    return {**inputs, "performance_level": level} if level else inputs


def _encrypted(disk: DiskSettings, *, protected: bool) -> bool:
    return protected if disk.encrypted is None else disk.encrypted


def _level(disk: DiskSettings) -> str | None:
    return disk.performance_level or ("PL1" if disk.category == "cloud_essd" else None)


def _management(settings: AlicloudSettings, pool: NodePoolSettings) -> Mapping[str, Any]:
    follows = settings.kubernetes.auto_upgrade != "none"
    return {
        "enable": True,
        "auto_repair": True,
        # A restart ends a training job that may survive what is broken.
        "auto_repair_policy": {"restart_node": pool.role != "gpu"},
        "auto_upgrade": follows,
        "auto_upgrade_policy": {"auto_upgrade_kubelet": follows},
        "auto_vul_fix": False,
        "max_unavailable": 1,
    }


def _lingjun(pool: NodePoolSettings) -> dict[str, Any]:
    """The machines, their images, disks and drivers belong to the node group."""
    assert pool.lingjun is not None
    return {
        "type": "lingjun",
        "eflo_node_group": {"cluster_id": pool.lingjun.cluster_id, "group_id": pool.lingjun.group_id},
        "desired_size": str(pool.maximum),
    }
