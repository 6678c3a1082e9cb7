"""Settings of node pools."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.settings.fields import DnsLabel, Model
from infra.settings.gpu import GpuSettings


class TaintSettings(Model):
    """A taint of every node of a pool."""

    key: str
    """Its key."""
    value: str = ""
    """Its value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What it does to pods without a toleration."""


class SpotSettings(Model):
    """Spot (preemptible) nodes."""

    price_limits: dict[str, float] = Field(default_factory=dict)
    """Highest price per hour by instance type, in the account's currency. Default: up to the on-demand price."""
    on_demand_base: int = Field(default=0, ge=0, le=2000, strict=True)
    """Nodes that are bought on demand before any spot node."""
    on_demand_percentage_above_base: int = Field(default=0, ge=0, le=100, strict=True)
    """Share of on-demand nodes among the rest."""
    on_demand_when_short: bool = False
    """Whether on-demand nodes stand in where no spot node can be had."""


class DiskSettings(Model):
    """A cloud disk of every node."""

    category: Literal["cloud_essd", "cloud_auto", "cloud_essd_entry", "cloud_efficiency", "cloud_ssd"] = "cloud_essd"
    """Kind of disk."""
    size_gib: int = Field(default=120, ge=40, le=32767, strict=True)
    """Size in GiB."""
    performance_level: Literal["PL0", "PL1", "PL2", "PL3"] | None = None
    """Level of an ESSD. Default: PL1; the others need a minimum size."""
    encrypted: bool = False
    """Whether it is encrypted with the account's default key."""
    mount_path: str | None = None
    """Where a data disk is mounted; a system disk has none."""


class LingjunSettings(Model):
    """An existing Lingjun cluster and node group (prepaid hardware is never ordered here)."""

    cluster_id: str
    """The Lingjun cluster."""
    group_id: str
    """Its node group."""


class NodePoolSettings(Model):
    """One node pool: nodes of one kind."""

    name: DnsLabel
    """Name; a renamed pool is a new pool."""
    role: Literal["system", "cpu", "gpu"]
    """`system` runs the platform's own parts, `cpu` parameter servers and services, `gpu` training and inference."""
    instance_types: tuple[str, ...]
    """Instance types in order of preference; of one pool all with the same GPUs and network abilities."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes. Default: all of the environment's."""
    minimum: int = Field(default=0, ge=0, le=2000, strict=True)
    """Fewest nodes. Equal to `maximum`: a fixed size without autoscaling."""
    maximum: int = Field(ge=0, le=2000, strict=True)
    """Most nodes; what quotas and pod addresses are planned for."""
    zone_policy: Literal["PRIORITY", "COST_OPTIMIZED", "BALANCE"] = "BALANCE"
    """How nodes spread over the zones."""
    spot: SpotSettings | None = None
    """Spot nodes. Default: on demand."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Further node labels."""
    taints: tuple[TaintSettings, ...] = ()
    """Further taints."""
    system_disk: DiskSettings = DiskSettings()
    """The system disk."""
    data_disks: tuple[DiskSettings, ...] = ()
    """Data disks; the first holds images and containers."""
    gpu: GpuSettings = GpuSettings()
    """Driver and sharing; only for role `gpu`."""
    eni: Literal["shared", "exclusive"] = "shared"
    """`exclusive`: every pod gets a network interface of its own (few pods per node)."""
    rdma: bool = False
    """Whether pods can ask for an RDMA device; the instance types decide which kind."""
    low_latency: bool = False
    """Whether the nodes are placed close together (deployment set)."""
    lingjun: LingjunSettings | None = None
    """Nodes from an existing Lingjun node group instead of ECS."""
