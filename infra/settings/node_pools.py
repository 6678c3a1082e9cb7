"""Settings of node pools."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.gpu.sharing import node_labels
from infra.instance_types import InstanceType, instance_type
from infra.settings.fields import DnsLabel, Model, known_instance_type
from infra.settings.gpu import GpuSettings
from infra.settings.node_disks import LARGEST_SYSTEM_DISK_GIB, DiskSettings
from infra.settings.node_labels import LabelKey, LabelValue, TaintSettings

LARGEST_DEPLOYMENT_SET = 20
"""ECS places at most that many instances of a zone close together (ECS, "Deployment sets", low-latency strategy)."""
_LARGEST_MINIMUM = 1000


class SpotSettings(Model):
    """Spot (preemptible) nodes."""

    price_limits: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Highest price per hour for each of the pool's instance types. Default: up to the on-demand price."""
    on_demand_base: int = Field(default=0, ge=0, le=_LARGEST_MINIMUM, strict=True)
    """Nodes that are bought on demand before any spot node."""
    on_demand_percentage_above_base: int = Field(default=0, ge=0, le=100, strict=True)
    """Share of on-demand nodes among the rest."""
    on_demand_when_short: bool = False
    """Whether on-demand nodes stand in where no spot node can be had; only with zone_policy COST_OPTIMIZED."""


class LingjunSettings(Model):
    """An existing Lingjun cluster and node group (prepaid hardware is never ordered here)."""

    cluster_id: Annotated[str, StringConstraints(min_length=1)]
    """The Lingjun cluster; fixed at the pool's birth."""
    group_id: Annotated[str, StringConstraints(min_length=1)]
    """Its node group; fixed at the pool's birth."""


class NodePoolSettings(Model):
    """One node pool: nodes of one kind."""

    name: DnsLabel
    """Name; a renamed pool is a new pool."""
    role: Literal["system", "cpu", "gpu"]
    """`system` runs the platform's own parts, `cpu` parameter servers and services, `gpu` training and inference."""
    instance_types: tuple[Annotated[str, AfterValidator(known_instance_type)], ...] = ()
    """Instance types in order of preference, all with the same GPUs and RDMA. None for Lingjun."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes. Default: all of the environment's."""
    minimum: int = Field(default=0, ge=0, le=_LARGEST_MINIMUM, strict=True)
    """Fewest nodes. Equal to `maximum`: a fixed size without autoscaling."""
    maximum: int = Field(ge=0, le=2000, strict=True)
    """Most nodes; what quotas and pod addresses are planned for."""
    zone_policy: Literal["PRIORITY", "COST_OPTIMIZED", "BALANCE"] = "BALANCE"
    """How nodes spread over the zones."""
    spot: SpotSettings | None = None
    """Spot nodes. Default: on demand."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Further node labels; a change reaches the nodes of GPU pools only when they are new."""
    taints: tuple[TaintSettings, ...] = ()
    """Further taints; a change reaches the nodes of GPU pools only when they are new."""
    image_type: Literal["AliyunLinux3", "AliyunLinux3ContainerOptimized", "AliyunLinux4", "Ubuntu", "ContainerOS"] = (
        "AliyunLinux3"
    )
    """Operating system of the nodes, as ACK names it."""
    system_disk: DiskSettings = DiskSettings()
    """The system disk."""
    data_disks: tuple[DiskSettings, ...] = ()
    """Data disks; the first holds images and containers, unless it is mounted elsewhere."""
    gpu: GpuSettings = GpuSettings()
    """Driver and sharing; only for role `gpu`."""
    eni: Literal["shared", "exclusive"] = "shared"
    """`exclusive`: every pod gets a network interface of its own (few pods per node)."""
    rdma: bool = False
    """Whether pods can ask for an RDMA device; the instance types decide which kind."""
    low_latency: bool = False
    """Whether the nodes are placed close together (deployment set): one zone, at most 20 nodes, none of them spot."""
    lingjun: LingjunSettings | None = None
    """Nodes from an existing Lingjun node group instead of ECS."""

    @property
    def autoscaled(self) -> bool:
        """Whether the number of nodes follows the pods."""
        return self.minimum != self.maximum

    @property
    def facts(self) -> tuple[InstanceType, ...]:
        """The instance types with all that is known of them; none for Lingjun."""
        return tuple(instance_type(name) for name in self.instance_types)

    @model_validator(mode="after")
    def _size_is_a_range(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(
                f"minimum = {self.minimum}: is above maximum = {self.maximum}. Fix: lower minimum or raise maximum"
            )
        return self

    @model_validator(mode="after")
    def _types_are_alike(self) -> Self:
        if self.lingjun:
            return self
        if not self.instance_types:
            raise ValueError("instance_types = []: a pool of ECS nodes needs one. Fix: name at least one instance type")
        if len(set(self.instance_types)) != len(self.instance_types):
            raise ValueError(f"instance_types = {list(self.instance_types)}: repeats a type. Fix: name each type once")
        first = self.facts[0]
        for other in self.facts[1:]:
            if (first.gpus, first.gpu, first.rdma) != (other.gpus, other.gpu, other.rdma):
                raise ValueError(
                    f"instance_types = {other.name!r}: differs from {first.name} in GPUs or RDMA, and jobs count on"
                    " nodes that are alike. Fix: give it a pool of its own"
                )
        return self

    @model_validator(mode="after")
    def _role_fits(self) -> Self:
        if self.lingjun:
            if self.role != "gpu":
                raise ValueError(f"role = {self.role!r}: Lingjun machines have GPUs. Fix: use role gpu")
            return self
        has_gpus = bool(self.facts[0].gpus)
        if has_gpus != (self.role == "gpu"):
            having = "GPUs" if has_gpus else "no GPUs"
            fix = "use role gpu, or a type without GPUs" if has_gpus else "use role system or cpu, or a type with GPUs"
            raise ValueError(f"role = {self.role!r}: {self.instance_types[0]} has {having}. Fix: {fix}")
        return self

    @model_validator(mode="after")
    def _gpu_settings_have_gpus(self) -> Self:
        if self.role != "gpu" and self.gpu != GpuSettings():
            raise ValueError(f"gpu is set, and role = {self.role!r} has no GPUs. Fix: leave gpu out, or use role gpu")
        node_labels(self.gpu.sharing)
        return self

    @model_validator(mode="after")
    def _network_has_room(self) -> Self:
        for facts in self.facts:
            facts.node_pods(self.eni, rdma=self.rdma)
        return self

    @model_validator(mode="after")
    def _rdma_exists(self) -> Self:
        without = [facts.name for facts in self.facts if facts.rdma == "none"]
        if self.rdma and without and not self.lingjun:
            raise ValueError(
                f"rdma = True: {without[0]} has no RDMA. Fix: leave rdma out, or use a type with eRDMA"
                " (infra/instance_types.py)"
            )
        return self

    @model_validator(mode="after")
    def _price_limits_are_of_the_pool(self) -> Self:
        limits = set(self.spot.price_limits) if self.spot else set[str]()
        if limits and limits != set(self.instance_types):
            wrong = sorted(limits ^ set(self.instance_types))
            raise ValueError(
                f"spot.price_limits names {sorted(limits)} and instance_types {list(self.instance_types)}: {wrong[0]!r}"
                " is in one of them only. Fix: give a limit for each of the pool's types, or for none"
            )
        return self

    @model_validator(mode="after")
    def _standing_in_is_possible(self) -> Self:
        if self.spot and self.spot.on_demand_when_short and self.zone_policy != "COST_OPTIMIZED":
            raise ValueError(
                f"spot.on_demand_when_short = True: does nothing with zone_policy {self.zone_policy}. Fix: use"
                " zone_policy COST_OPTIMIZED, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _deployment_set_can_hold_it(self) -> Self:
        if not self.low_latency:
            return self
        if self.maximum > LARGEST_DEPLOYMENT_SET:
            raise ValueError(
                f"maximum = {self.maximum}: a deployment set holds at most {LARGEST_DEPLOYMENT_SET} nodes. Fix: lower"
                " maximum, or leave low_latency out"
            )
        if self.spot:
            raise ValueError("low_latency = True: a deployment set takes no spot nodes. Fix: leave out one of the two")
        return self

    @model_validator(mode="after")
    def _disks_fit(self) -> Self:
        if self.system_disk.mount_path:
            raise ValueError(
                f"system_disk.mount_path = {self.system_disk.mount_path!r}: it is the root. Fix: leave mount_path out"
            )
        if self.system_disk.size_gib > LARGEST_SYSTEM_DISK_GIB:
            raise ValueError(
                f"system_disk.size_gib = {self.system_disk.size_gib}: a system disk has at most"
                f" {LARGEST_SYSTEM_DISK_GIB} GiB. Fix: lower it, or add a data disk"
            )
        paths = [disk.mount_path for disk in self.data_disks]
        if None in paths[1:]:
            raise ValueError(
                f"data_disks.{paths.index(None, 1)} has no mount_path, and only the first disk has a default. Fix: name"
                " where it is mounted"
            )
        if len(set(paths)) != len(paths):
            raise ValueError(f"data_disks are mounted at {paths}: two at one path. Fix: give each a path of its own")
        return self

    @model_validator(mode="after")
    def _lingjun_decides_by_itself(self) -> Self:
        if not self.lingjun:
            return self
        decided = {
            "instance_types": self.instance_types,
            "spot": self.spot,
            "low_latency": self.low_latency,
            "system_disk": self.system_disk != DiskSettings(),
            "data_disks": self.data_disks,
            "gpu.driver_version": self.gpu.driver_version,
            "gpu.sharing": self.gpu.sharing,
        }
        given = [name for name, value in decided.items() if value]
        if given:
            raise ValueError(f"{given[0]} is set, and the Lingjun machines decide that. Fix: leave {given[0]} out")
        if self.eni != "exclusive":
            raise ValueError(f"eni = {self.eni!r}: Lingjun nodes have exclusive ENIs only. Fix: use eni exclusive")
        if self.autoscaled:
            raise ValueError(
                f"minimum = {self.minimum}, maximum = {self.maximum}: prepaid Lingjun nodes are not scaled. Fix: make"
                " the two equal"
            )
        return self
