"""Settings of an environment on Alibaba Cloud."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.settings.alicloud_kubernetes import KubernetesSettings
from infra.settings.alicloud_network import NetworkSettings
from infra.settings.fields import Model
from infra.settings.node_pools import NodePoolSettings
from infra.settings.pod_networking import PodNetworkingSettings

Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,}-[a-z0-9-]+$")]
_MOST_ZONES = 5
"""ACK takes at most five vswitches for a control plane; ours has one in each zone."""
_MOST_TAGS = 18
"""A resource carries at most 20 tags; two are the project's."""


def _tag_key(key: str) -> str:
    """Refuse what some service refuses (ECS, "Tags", limits)."""
    if not 0 < len(key) <= 128 or key.lower().startswith(("acs:", "aliyun", "athanor:")) or "://" in key:
        raise ValueError(
            "is no tag key. Fix: 1 to 128 characters, without ://, not beginning with acs:, aliyun or athanor:"
        )
    return key


def _tag_value(value: str) -> str:
    if len(value) > 128 or value.lower().startswith("acs:") or "://" in value:
        raise ValueError("is no tag value. Fix: at most 128 characters, without ://, not beginning with acs:")
    return value


class AssumeRoleSettings(Model):
    """A RAM role that the provider takes before it does anything; whoever runs it needs sts:AssumeRole for it."""

    role_arn: Annotated[str, StringConstraints(pattern=r"^acs:ram::[0-9]{16}:role/[A-Za-z0-9.-]{1,64}$")]
    """The role, such as acs:ram::1234567890123456:role/deployer."""
    session_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.@_-]{2,64}$")] = "athanor"
    """Name of the session in ActionTrail."""


class AlicloudSettings(Model):
    """A whole environment in one region: network, ACK cluster, node pools. Absent: the cluster exists already."""

    region: Region
    """Region, such as cn-hangzhou."""
    zones: tuple[str, ...]
    """Zones to span, such as [cn-hangzhou-i, cn-hangzhou-j]. Add at the end: addresses follow the position."""
    account_type: Literal["Domestic", "International"] = "Domestic"
    """Which of the two Alibaba Cloud sites the account belongs to (aliyun.com: Domestic)."""
    protected: bool = False
    """Whether the cluster, its way out and its data refuse deletion: true in prod."""
    assume_role: AssumeRoleSettings | None = None
    """Role to work as. Default: whoever the credentials belong to."""
    key_pair: str | None = None
    """Existing ECS key pair that opens the nodes for root; there is never a password. Default: no way in."""
    tags: dict[Annotated[str, AfterValidator(_tag_key)], Annotated[str, AfterValidator(_tag_value)]] = Field(
        default_factory=dict, max_length=_MOST_TAGS
    )
    """Tags of every resource that can carry them, beside the project's and the stack's."""
    network: NetworkSettings = NetworkSettings()
    """VPC, vswitches, NAT gateway."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    """The ACK cluster."""
    node_pools: tuple[NodePoolSettings, ...]
    """Node pools; at least one of role `system`."""
    pod_networkings: tuple[PodNetworkingSettings, ...] = ()
    """Networks of their own for some pods (Terway trunk interfaces)."""

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> Self:
        if not self.zones:
            raise ValueError(f"zones is empty. Fix: name at least one zone, such as {self.region}-i")
        # cn-hangzhou-i in China, ap-southeast-1a elsewhere
        of_region = re.compile(rf"{re.escape(self.region)}-?[a-z]")
        foreign = [zone for zone in self.zones if not of_region.fullmatch(zone)]
        if foreign:
            like = f"{self.region}-i" if self.region.startswith("cn-") else f"{self.region}a"
            raise ValueError(f"zones = {foreign[0]!r}: is not of region {self.region}. Fix: name zones such as {like}")
        if len(set(self.zones)) != len(self.zones):
            raise ValueError(f"zones = {list(self.zones)}: repeats a zone. Fix: name each zone once")
        return self

    @model_validator(mode="after")
    def _zones_are_few_enough(self) -> Self:
        if len(self.zones) > _MOST_ZONES:
            raise ValueError(
                f"zones = {list(self.zones)}: ACK spreads a control plane over at most {_MOST_ZONES} zones. Fix: name"
                f" {_MOST_ZONES} of them"
            )
        return self

    @model_validator(mode="after")
    def _pools_have_names_of_their_own(self) -> Self:
        names = [pool.name for pool in self.node_pools]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"node_pools repeats the name {repeated[0]!r}. Fix: give each pool a name of its own")
        return self

    @model_validator(mode="after")
    def _pod_networkings_have_names_of_their_own(self) -> Self:
        names = [networking.name for networking in self.pod_networkings]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"pod_networkings repeats the name {repeated[0]!r}. Fix: give each a name of its own")
        return self

    @model_validator(mode="after")
    def _pools_are_in_the_zones(self) -> Self:
        for pool in self.node_pools:
            foreign = [zone for zone in pool.zones if zone not in self.zones]
            if foreign:
                raise ValueError(
                    f"node_pools: zones of {pool.name!r} = {foreign[0]!r}: is none of the environment's"
                    f" {list(self.zones)}. Fix: use one of these, or add it to alicloud.zones"
                )
            zones = self.zones_of(pool)
            if pool.low_latency and len(zones) != 1:
                raise ValueError(
                    f"node_pools: zones of {pool.name!r} = {list(zones)}: with low_latency all nodes are in one zone."
                    f" Fix: give the pool one, such as zones [{zones[0]}]"
                )
        return self

    @model_validator(mode="after")
    def _something_runs_the_platform(self) -> Self:
        running = [pool for pool in self.node_pools if pool.role == "system" and pool.minimum > 0]
        if not running:
            raise ValueError(
                "node_pools: no pool of role system has minimum 1 or more, so the platform's own parts would have no"
                " node. Fix: add one, such as {name: system, role: system, instance_types: [ecs.g8i.xlarge], minimum:"
                " 2, maximum: 3}"
            )
        return self

    def zones_of(self, pool: NodePoolSettings) -> tuple[str, ...]:
        """Return the zones that a pool's nodes can be in, in the pool's order of preference."""
        return pool.zones or self.zones
