"""Settings of node pools."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.cuda import DEFAULT_DRIVER
from infra.instance_types import LOW_LATENCY_FAMILIES, InstanceType, instance_type
from infra.settings.fields import DnsLabel, Model, known_instance_type, repeated
from infra.settings.gpu import GpuSettings, check_sharing_on_ack
from infra.settings.node_disks import LARGEST_SYSTEM_DISK_GIB, DiskSettings
from infra.settings.node_labels import LabelKey, LabelValue, TaintSettings

_BIOS_ONLY = ("ContainerOS",)
"""Images that boot in no other way. The others boot by UEFI as well (ECS, "Instance boot mode": UEFI-Preferred)."""
LARGEST_DEPLOYMENT_SET = 20
"""ECS places at most that many instances of a zone close together (ECS, "Deployment sets", low-latency strategy)."""
_LARGEST_MINIMUM = 1000


class SpotSettings(Model):
    """Spot (preemptible) nodes."""

    price_limits: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Maximum price per hour for each of the pool's instance types. Default: up to the on-demand price."""
    on_demand_base: int = Field(default=0, ge=0, le=_LARGEST_MINIMUM, strict=True)
    """Number of on-demand nodes before any spot node."""
    on_demand_percentage_above_base: int = Field(default=0, ge=0, le=100, strict=True)
    """Percentage of on-demand nodes among the rest."""
    on_demand_when_short: bool = False
    """Whether on-demand nodes replace spot nodes that are unavailable; only with zone_policy COST_OPTIMIZED."""


class LingjunSettings(Model):
    """An existing Lingjun cluster and node group (prepaid hardware is never ordered here)."""

    cluster_id: Annotated[str, StringConstraints(min_length=1)]
    """The Lingjun cluster; fixed when the pool is created."""
    group_id: Annotated[str, StringConstraints(min_length=1)]
    """Its node group; fixed when the pool is created."""
    ipv6: bool = False
    """Whether the Lingjun cluster's computing network was created with IPv6, and the add-on ack-rdma-device-plugin has
    RDMA without hostNetwork enabled: without both, only pods on the host network get RDMA."""


class NodePoolSettings(Model):
    """One node pool: nodes of one kind."""

    name: DnsLabel
    """Name; renaming a pool replaces it."""
    role: Literal["system", "cpu", "gpu"]
    """`system` runs the platform's own components, `cpu` parameter servers and services, `gpu` training and
    inference."""
    instance_types: tuple[Annotated[str, AfterValidator(known_instance_type)], ...] = ()
    """Instance types in order of preference, all with the same GPUs and RDMA. None for Lingjun."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes. Default: all zones of the environment."""
    minimum: int = Field(default=0, ge=0, le=_LARGEST_MINIMUM, strict=True)
    """Minimum number of nodes. Equal to `maximum`: a fixed size without autoscaling."""
    maximum: int = Field(ge=0, le=2000, strict=True)
    """Maximum number of nodes; quotas and pod addresses are sized for it."""
    zone_policy: Literal["PRIORITY", "COST_OPTIMIZED", "BALANCE"] = "BALANCE"
    """How nodes are spread over the zones."""
    spot: SpotSettings | None = None
    """Spot nodes. Default: on demand."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Additional node labels; in GPU pools, a change applies only to new nodes."""
    taints: tuple[TaintSettings, ...] = ()
    """Additional taints; in GPU pools, a change applies only to new nodes."""
    image_type: Literal["AliyunLinux3", "AliyunLinux3ContainerOptimized", "AliyunLinux4", "Ubuntu", "ContainerOS"] = (
        "AliyunLinux3ContainerOptimized"
    )
    """Operating system of the nodes, as ACK names it."""
    system_disk: DiskSettings = DiskSettings()
    """The system disk."""
    data_disks: tuple[DiskSettings, ...] = ()
    """Data disks; the first holds images and containers, unless it is mounted elsewhere."""
    gpu: GpuSettings = GpuSettings()
    """Driver and sharing; only for role `gpu`."""
    eni: Literal["shared", "exclusive"] = "shared"
    """`exclusive`: every pod gets its own network interface (few pods per node)."""
    rdma: bool = False
    """Whether pods can request an RDMA device; the instance types decide which kind."""
    low_latency: bool = False
    """Whether the nodes are placed close together (deployment set): one zone, at most 20 nodes, none of them spot, of
    instance families that support it; fixed when the pool is created."""
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

    @property
    def driver_version(self) -> str | None:
        """NVIDIA driver that ACK installs on the nodes; None without GPUs, and on Lingjun machines, which have one."""
        if self.role != "gpu" or self.lingjun:
            return None
        return self.gpu.driver_version or DEFAULT_DRIVER

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
            raise ValueError("instance_types = []: a pool of ECS nodes needs at least one. Fix: list an instance type")
        if len(set(self.instance_types)) != len(self.instance_types):
            raise ValueError(
                f"instance_types = {list(self.instance_types)}: lists a type twice. Fix: list each type once"
            )
        first = self.facts[0]
        for other in self.facts[1:]:
            if (first.gpus, first.gpu, first.rdma) != (other.gpus, other.gpu, other.rdma):
                raise ValueError(
                    f"instance_types = {other.name!r}: differs from {first.name} in GPUs or RDMA, but jobs rely on"
                    " identical nodes. Fix: put it into a separate pool"
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
            raise ValueError(f"gpu is set, but role = {self.role!r} has no GPUs. Fix: omit gpu, or use role gpu")
        check_sharing_on_ack(self.gpu.sharing)
        return self

    @model_validator(mode="after")
    def _image_boots(self) -> Self:
        uefi = [facts.name for facts in self.facts if facts.uefi]
        if uefi and self.image_type in _BIOS_ONLY:
            raise ValueError(
                f"image_type = {self.image_type!r}: {uefi[0]} boots with UEFI, but this image only with BIOS. Fix: use"
                " AliyunLinux3ContainerOptimized, or a type that is not bare metal"
            )
        return self

    @model_validator(mode="after")
    def _network_has_room(self) -> Self:
        for facts in self.facts:
            facts.check_can_join(self.eni, rdma=self.rdma)
        return self

    @model_validator(mode="after")
    def _rdma_exists(self) -> Self:
        without = [facts.name for facts in self.facts if facts.rdma == "none"]
        if self.rdma and without and not self.lingjun:
            raise ValueError(
                f"rdma = True: {without[0]} has no RDMA. Fix: omit rdma, or use a type with eRDMA"
                " (infra/instance_types.py)"
            )
        return self

    @model_validator(mode="after")
    def _rdma_nodes_can_be_set_up(self) -> Self:
        if self.rdma and self.image_type == "ContainerOS" and not self.lingjun:
            raise ValueError(
                f"image_type = {self.image_type!r}: its root file system is read-only, but nodes with RDMA need a"
                " higher limit on locked memory. Fix: omit image_type"
            )
        return self

    @model_validator(mode="after")
    def _price_limits_are_of_the_pool(self) -> Self:
        limits = set(self.spot.price_limits) if self.spot else set[str]()
        if limits and limits != set(self.instance_types):
            wrong = sorted(limits ^ set(self.instance_types))
            raise ValueError(
                f"spot.price_limits names {sorted(limits)} and instance_types {list(self.instance_types)}: {wrong[0]!r}"
                " is in only one of them. Fix: set a limit for each of the pool's types, or for none"
            )
        return self

    @model_validator(mode="after")
    def _base_is_part_of_it(self) -> Self:
        if self.spot and self.spot.on_demand_base > self.maximum:
            raise ValueError(
                f"spot.on_demand_base = {self.spot.on_demand_base}: is above maximum = {self.maximum}, so no node would"
                " be a spot node. Fix: lower it, or omit spot"
            )
        return self

    @model_validator(mode="after")
    def _taints_are_different(self) -> Self:
        marks = [(taint.key, taint.effect) for taint in self.taints]
        twice = repeated(marks)
        if twice:
            key, effect = twice[0]
            raise ValueError(
                f"taints repeats {key!r} with effect {effect}, and a node can have it once. Fix: omit one of them"
            )
        return self

    @model_validator(mode="after")
    def _standing_in_is_possible(self) -> Self:
        if self.spot and self.spot.on_demand_when_short and self.zone_policy != "COST_OPTIMIZED":
            raise ValueError(
                f"spot.on_demand_when_short = True: has no effect with zone_policy {self.zone_policy}. Fix: use"
                " zone_policy COST_OPTIMIZED, or omit it"
            )
        return self

    @model_validator(mode="after")
    def _deployment_set_can_hold_it(self) -> Self:
        if not self.low_latency:
            return self
        if self.maximum > LARGEST_DEPLOYMENT_SET:
            raise ValueError(
                f"maximum = {self.maximum}: a deployment set holds at most {LARGEST_DEPLOYMENT_SET} nodes. Fix: lower"
                " maximum, or omit low_latency"
            )
        if self.spot:
            raise ValueError(
                "low_latency = True: a deployment set cannot contain spot nodes. Fix: omit low_latency or spot"
            )
        unfit = [facts.name for facts in self.facts if not facts.low_latency]
        if unfit:
            raise ValueError(
                f"low_latency = True: low-latency deployment sets do not accept {unfit[0]}, only the families"
                f" {', '.join(sorted(LOW_LATENCY_FAMILIES))}. Fix: omit low_latency, or use a type of these families"
            )
        return self

    @model_validator(mode="after")
    def _disks_fit(self) -> Self:
        if self.system_disk.mount_path:
            raise ValueError(
                f"system_disk.mount_path = {self.system_disk.mount_path!r}: a system disk is always mounted at /. Fix:"
                " omit mount_path"
            )
        if self.system_disk.size_gib > LARGEST_SYSTEM_DISK_GIB:
            raise ValueError(
                f"system_disk.size_gib = {self.system_disk.size_gib}: a system disk has at most"
                f" {LARGEST_SYSTEM_DISK_GIB} GiB. Fix: lower it, or add a data disk"
            )
        paths = [disk.mount_path for disk in self.data_disks]
        if None in paths[1:]:
            raise ValueError(
                f"data_disks.{paths.index(None, 1)} has no mount_path, and only the first disk has a default. Fix: set"
                " its mount_path"
            )
        if len(set(paths)) != len(paths):
            raise ValueError(
                f"data_disks are mounted at {paths}: two disks have the same path. Fix: give each a different path"
            )
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
            raise ValueError(f"{given[0]} is set, but the Lingjun machines determine it. Fix: omit {given[0]}")
        if self.eni != "exclusive":
            raise ValueError(f"eni = {self.eni!r}: Lingjun nodes have exclusive ENIs only. Fix: use eni exclusive")
        if self.autoscaled:
            raise ValueError(
                f"minimum = {self.minimum}, maximum = {self.maximum}: prepaid Lingjun nodes are not autoscaled. Fix:"
                " set both to the same number"
            )
        return self
