"""Settings of the VPC and everything in it."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Self

from pydantic import Field, model_validator

from infra.settings.fields import Model


class ExistingNetworkSettings(Model):
    """A VPC and vswitches that somebody else owns."""

    vpc_id: str
    """The VPC."""
    node_vswitch_ids: dict[str, str]
    """Node vswitch by zone."""
    pod_vswitch_ids: dict[str, str]
    """Pod vswitch by zone."""
    security_group_id: str | None = None
    """Security group of nodes and pods. Default: one of ours in that VPC."""


class NetworkSettings(Model):
    """The VPC: planned from one CIDR, or an existing one by its ids."""

    cidr: IPv4Network = IPv4Network("10.64.0.0/12")
    """Addresses of the VPC; node and pod vswitches of each zone are cut out of it."""
    service_cidr: IPv4Network = IPv4Network("172.21.0.0/20")
    """Addresses of Kubernetes Services; outside the VPC's."""
    existing: ExistingNetworkSettings | None = None
    """Use this VPC instead of making one; `cidr` is then ignored."""
    nat_gateway: bool = True
    """Whether nodes and pods get a way out through an enhanced NAT gateway of ours."""
    nat_bandwidth_mbps: int = Field(default=100, ge=1, le=200, strict=True)
    """Limit of that way out in Mbit/s; billed by traffic."""

    @model_validator(mode="after")
    def _service_addresses_are_outside(self) -> Self:
        if self.existing is None and self.cidr.overlaps(self.service_cidr):
            raise ValueError(
                f"service_cidr = {self.service_cidr}: overlaps cidr {self.cidr}. Fix: choose one outside of it,"
                " such as 172.21.0.0/20"
            )
        return self
