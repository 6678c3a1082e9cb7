"""Settings of the VPC and everything in it."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from infra.settings.fields import Model

_PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
LARGEST_VPC = 8
SMALLEST_VPC = 22
"""Prefix lengths of a VPC. Alibaba Cloud takes /8 to /28 (CreateVpc); beyond /22 our node vswitches would be smaller
than a vswitch may be (/29)."""
_LARGEST_SERVICES, _SMALLEST_SERVICES = 16, 24
"""Prefix lengths that ACK takes for Services (CreateCluster, service_cidr)."""


def _network(value: object) -> object:
    if not isinstance(value, str):
        return value
    address, _, prefix = value.partition("/")
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        network = None
    if network is None or not prefix.isdecimal():
        raise ValueError("is not an IPv4 network. Fix: write address and prefix length, such as 10.64.0.0/12")
    if str(network.network_address) != address:
        raise ValueError(f"has bits set beyond /{prefix}. Fix: write {network}")
    return network


def _private(network: IPv4Network) -> IPv4Network:
    if not any(network.subnet_of(private) for private in _PRIVATE):
        ranges = ", ".join(str(private) for private in _PRIVATE)
        raise ValueError(f"is not a private network (RFC 1918). Fix: choose one inside {ranges}")
    return network


def _vpc_size(network: IPv4Network) -> IPv4Network:
    if network.prefixlen > SMALLEST_VPC:
        raise ValueError(
            "is too small: a zone gets an eighth of it, nodes a sixteenth of that, and a vswitch has at least 8"
            f" addresses. Fix: choose a /{SMALLEST_VPC} or larger"
        )
    return network


def _service_size(network: IPv4Network) -> IPv4Network:
    if not _LARGEST_SERVICES <= network.prefixlen <= _SMALLEST_SERVICES:
        raise ValueError(
            f"is a /{network.prefixlen}, and ACK accepts /{_LARGEST_SERVICES} to /{_SMALLEST_SERVICES} for Services."
            " Fix: choose one of that size, such as 172.21.0.0/20"
        )
    return network


Cidr = Annotated[IPv4Network, BeforeValidator(_network), AfterValidator(_private)]
VpcId = Annotated[str, StringConstraints(pattern=r"^vpc-[a-z0-9]+$")]
VswitchId = Annotated[str, StringConstraints(pattern=r"^vsw-[a-z0-9]+$")]
SecurityGroupId = Annotated[str, StringConstraints(pattern=r"^sg-[a-z0-9]+$")]


class ExistingNetworkSettings(Model):
    """A VPC and vswitches that somebody else owns. Their free addresses are not known before an update."""

    vpc_id: VpcId
    """The VPC."""
    node_vswitch_ids: dict[str, VswitchId]
    """Node vswitch by zone; every zone of the environment needs one."""
    pod_vswitch_ids: dict[str, VswitchId]
    """Pod vswitch by zone; every zone of the environment needs one."""
    security_group_id: SecurityGroupId | None = None
    """Security group of nodes and pods; it must let them reach each other. Default: the stack creates one in that
    VPC."""
    cidr: Cidr | None = None
    """Address range of that VPC, which the stack's own security group admits. Required without `security_group_id`."""

    @model_validator(mode="after")
    def _a_group_of_ours_knows_whom_to_let_in(self) -> Self:
        if self.security_group_id is None and self.cidr is None:
            raise ValueError(
                f"names VPC {self.vpc_id}, but neither security_group_id nor cidr. Fix: set security_group_id to use"
                " that group, or set cidr to the VPC's address range to have a group created"
            )
        return self


class NetworkSettings(Model):
    """The VPC: planned from one CIDR, or an existing one by its ids."""

    cidr: Annotated[Cidr, AfterValidator(_vpc_size)] = IPv4Network("10.64.0.0/12")
    """Address range of the VPC, fixed at creation; each zone gets an eighth of it for its node and pod vswitches."""
    service_cidr: Annotated[Cidr, AfterValidator(_service_size)] = IPv4Network("172.21.0.0/20")
    """Address range of Kubernetes Services, fixed at creation; outside the VPC's."""
    existing: ExistingNetworkSettings | None = None
    """Use this VPC instead of creating one; `cidr` is then ignored."""
    nat_gateway: bool = True
    """Whether the stack creates an enhanced NAT gateway for the egress of nodes and pods."""
    nat_bandwidth_mbps: int = Field(default=100, ge=1, le=200, strict=True)
    """Bandwidth limit of that NAT gateway in Mbit/s; billed by traffic."""

    @property
    def vpc_cidr(self) -> IPv4Network | None:
        """Addresses of the VPC in use; None where an existing one does not tell them."""
        return self.existing.cidr if self.existing else self.cidr

    @model_validator(mode="after")
    def _service_addresses_are_outside(self) -> Self:
        if self.vpc_cidr and self.vpc_cidr.overlaps(self.service_cidr):
            raise ValueError(
                f"service_cidr = {self.service_cidr}: overlaps the VPC's address range {self.vpc_cidr}. Fix: choose"
                f" one outside it, such as {self._free_service_cidr(self.vpc_cidr)}"
            )
        return self

    @staticmethod
    def _free_service_cidr(taken: IPv4Network) -> IPv4Network:
        """Return a network for Services outside `taken`: no VPC covers two of the private ranges."""
        candidates = (IPv4Network("172.21.0.0/20"), IPv4Network("10.255.240.0/20"))
        return next(network for network in candidates if not network.overlaps(taken))
