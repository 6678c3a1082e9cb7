"""Settings of an environment on Alibaba Cloud."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from infra.settings.alicloud_kubernetes import KubernetesSettings
from infra.settings.alicloud_network import NetworkSettings
from infra.settings.fields import Model
from infra.settings.node_pools import NodePoolSettings

Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,}-[a-z0-9-]+$")]


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
    tags: dict[str, str] = Field(default_factory=dict)
    """Tags of every resource that can carry them, beside the project's and the stack's."""
    network: NetworkSettings = NetworkSettings()
    """VPC, vswitches, NAT gateway."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    """The ACK cluster."""
    node_pools: tuple[NodePoolSettings, ...]
    """Node pools; at least one of role `system`."""

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> Self:
        if not self.zones:
            raise ValueError(f"zones is empty. Fix: name at least one zone, such as {self.region}-i")
        foreign = [zone for zone in self.zones if not zone.startswith(self.region + "-")]
        if foreign:
            raise ValueError(
                f"zones = {foreign[0]!r}: is not of region {self.region}. Fix: name zones such as {self.region}-i"
            )
        if len(set(self.zones)) != len(self.zones):
            raise ValueError(f"zones = {list(self.zones)}: repeats a zone. Fix: name each zone once")
        return self
