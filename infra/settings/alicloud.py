"""Settings of an environment on Alibaba Cloud."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.errors import choices
from infra.regions import ZONE_LETTERS, zones_of_region
from infra.settings.alicloud_kubernetes import KubernetesSettings
from infra.settings.alicloud_network import NetworkSettings
from infra.settings.fields import Model, repeated
from infra.settings.node_pools import NodePoolSettings
from infra.settings.trunk_networks import PodNetworkingSettings


def _known_region(region: str) -> str:
    if region not in ZONE_LETTERS:
        raise ValueError(f"is not in infra/regions.py. Fix: {choices(region, ZONE_LETTERS)}")
    return region


_MOST_ZONES = 5
"""ACK takes at most five vswitches for a control plane; ours has one in each zone."""
_CGROUP_V2_MINOR, _CGROUP_V1_IMAGES = 34, ("AliyunLinux3",)
_MOST_TAGS = 15
"""An ECS instance has at most 20 tags: three are ACK's (ACK, "Create and manage node pools", ECS tags), two ours."""


def _tag_key(key: str) -> str:
    """Refuse what some service refuses (ECS, "Tags", limits)."""
    if not 0 < len(key) <= 128 or key.lower().startswith(("acs:", "aliyun", "athanor:")) or "://" in key:
        raise ValueError(
            "is not a valid tag key. Fix: 1 to 128 characters, without ://, not beginning with acs:, aliyun or athanor:"
        )
    return key


def _tag_value(value: str) -> str:
    if len(value) > 128 or value.lower().startswith("acs:") or "://" in value:
        raise ValueError("is not a valid tag value. Fix: at most 128 characters, without ://, not beginning with acs:")
    return value


class AssumeRoleSettings(Model):
    """A RAM role that the provider assumes first; the identity that runs it needs sts:AssumeRole for it."""

    role_arn: Annotated[str, StringConstraints(pattern=r"^acs:ram::[0-9]{16}:role/[A-Za-z0-9.-]{1,64}$")]
    """The role, such as acs:ram::1234567890123456:role/deployer."""
    session_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.@_-]{2,64}$")] = "athanor"
    """Name of the session in ActionTrail."""


class AlicloudSettings(Model):
    """A whole environment in one region: network, ACK cluster, node pools. Absent: the cluster already exists."""

    region: Annotated[str, AfterValidator(_known_region)]
    """Region, such as cn-hangzhou."""
    zones: tuple[str, ...]
    """Zones to span, such as [cn-hangzhou-i, cn-hangzhou-j]. Others can only be added, at the end."""
    account_type: Literal["Domestic", "International"] = "Domestic"
    """Which of the two Alibaba Cloud sites the account belongs to (aliyun.com: Domestic)."""
    protected: bool = False
    """Whether the cluster, its egress and its data are protected from deletion: true in prod."""
    assume_role: AssumeRoleSettings | None = None
    """RAM role to assume. Default: the identity that the credentials belong to."""
    key_pair: Annotated[str, StringConstraints(pattern=r"^[^\W\d_][\w:.-]{1,127}$")] | None = None
    """Existing ECS key pair for root logins to the nodes; there is never a password. Default: no logins."""
    tags: dict[Annotated[str, AfterValidator(_tag_key)], Annotated[str, AfterValidator(_tag_value)]] = Field(
        default_factory=dict, max_length=_MOST_TAGS
    )
    """Tags for every resource that supports them, in addition to the project's and the stack's."""
    network: NetworkSettings = NetworkSettings()
    """VPC, vswitches, NAT gateway."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    """The ACK cluster."""
    metadata_tokens: Literal["required", "optional"] = "required"
    """Whether the metadata service of nodes answers only requests with a session token: for node pools that are created
    from now on. An existing pool keeps what it has."""
    node_pools: tuple[NodePoolSettings, ...]
    """Node pools; at least one of role `system`."""
    pod_networkings: tuple[PodNetworkingSettings, ...] = ()
    """Separate networks for selected pods (Terway trunk interfaces)."""

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> Self:
        if not self.zones:
            raise ValueError(
                f"zones = []: is empty. Fix: name at least one zone, such as {zones_of_region(self.region)[0]}"
            )
        there = zones_of_region(self.region)
        unknown = next((zone for zone in self.zones if zone not in there), None)
        if unknown is not None:
            raise ValueError(
                f"zones = {unknown!r}: is not a zone of {self.region} in infra/regions.py. Fix:"
                f" {choices(unknown, there)}"
            )
        if len(set(self.zones)) != len(self.zones):
            raise ValueError(f"zones = {list(self.zones)}: lists a zone twice. Fix: list each zone once")
        return self

    @model_validator(mode="after")
    def _zones_are_few_enough(self) -> Self:
        if len(self.zones) > _MOST_ZONES:
            raise ValueError(
                f"zones = {list(self.zones)}: ACK spreads a control plane over at most {_MOST_ZONES} zones. Fix: list"
                f" {_MOST_ZONES} of them"
            )
        return self

    @model_validator(mode="after")
    def _pools_have_names_of_their_own(self) -> Self:
        names = [pool.name for pool in self.node_pools]
        twice = repeated(names)
        if twice:
            raise ValueError(f"node_pools repeats the name {twice[0]!r}. Fix: give each pool a different name")
        return self

    @model_validator(mode="after")
    def _pod_networkings_have_names_of_their_own(self) -> Self:
        names = [networking.name for networking in self.pod_networkings]
        twice = repeated(names)
        if twice:
            raise ValueError(f"pod_networkings repeats the name {twice[0]!r}. Fix: give each a different name")
        return self

    @model_validator(mode="after")
    def _pools_are_in_the_zones(self) -> Self:
        for pool in self.node_pools:
            foreign = [zone for zone in pool.zones if zone not in self.zones]
            if foreign:
                raise ValueError(
                    f"node_pools: zones of {pool.name!r} = {foreign[0]!r}: is not one of the environment's zones"
                    f" {list(self.zones)}. Fix: use one of these, or add it to alicloud.zones"
                )
            zones = self.zones_of(pool)
            if pool.low_latency and len(zones) != 1:
                raise ValueError(
                    f"node_pools: zones of {pool.name!r} = {list(zones)}: with low_latency, all nodes must be in one"
                    f" zone. Fix: give the pool one zone, such as zones [{zones[0]}]"
                )
        return self

    @model_validator(mode="after")
    def _spot_nodes_are_bought_as_spot(self) -> Self:
        """Source: ACK, "FAQ about node instant scaling", limits: it cannot see what spot stock there is."""
        if self.kubernetes.autoscaler != "goatscaler":
            return self
        for pool in self.node_pools:
            if pool.autoscaled and pool.spot and pool.spot.on_demand_when_short:
                raise ValueError(
                    f"node_pools: spot.on_demand_when_short of {pool.name!r} = True: instant scaling cannot see"
                    " whether spot nodes are available, and would buy every node on demand. Fix: set"
                    " kubernetes.autoscaler to"
                    " cluster-autoscaler, or omit on_demand_when_short"
                )
        return self

    @model_validator(mode="after")
    def _protected_disks_are_encrypted(self) -> Self:
        for pool in self.node_pools:
            if self.protected and any(disk.encrypted is False for disk in (pool.system_disk, *pool.data_disks)):
                raise ValueError(
                    f"node_pools: a disk of {pool.name!r} has encrypted = False: disks hold images, logs and scratch"
                    " data, and the environment is protected. Fix: omit encrypted, or set protected to false"
                )
        return self

    @model_validator(mode="after")
    def _images_fit_the_version(self) -> Self:
        """Source: aliyun-computenest/quickstart-robot-solution, failures on real clusters of 2026."""
        minor = self.kubernetes.minor
        for pool in self.node_pools:
            if minor >= _CGROUP_V2_MINOR and pool.image_type in _CGROUP_V1_IMAGES and not pool.lingjun:
                raise ValueError(
                    f"node_pools: image_type of {pool.name!r} = {pool.image_type!r}: has cgroup v1, which the"
                    f" containerd of ACK's Kubernetes 1.{_CGROUP_V2_MINOR} and newer refuses. Fix: omit image_type, or"
                    " use AliyunLinux3ContainerOptimized"
                )
        return self

    @model_validator(mode="after")
    def _something_runs_the_platform(self) -> Self:
        running = [pool for pool in self.node_pools if pool.role == "system" and pool.minimum > 0]
        if not running:
            raise ValueError(
                "node_pools: no pool of role system has minimum 1 or more, so the platform's own components would have"
                " no node. Fix: add one, such as"
                " {name: system, role: system, instance_types: [ecs.g8i.xlarge], minimum:"
                " 2, maximum: 3}"
            )
        closed = [pool for pool in running if any(taint.effect != "PreferNoSchedule" for taint in pool.taints)]
        if len(closed) == len(running):
            raise ValueError(
                f"node_pools: taints of {closed[0].name!r}: the platform's own components and ACK's add-ons tolerate"
                " no taint, and no other pool of role system has nodes. Fix: omit its taints, or add a pool of role"
                " system without"
            )
        return self

    def zones_of(self, pool: NodePoolSettings) -> tuple[str, ...]:
        """Return the zones that a pool's nodes can be in, in the pool's order of preference."""
        return pool.zones or self.zones
