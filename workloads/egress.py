"""Egress rules of a job's pods, by addresses and ports, in addition to traffic among the pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from infra.closed_addresses import CLOSED, LINK_LOCAL, METADATA
from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.checks import check_range

if TYPE_CHECKING:
    from infra.manifests import Manifest

INTERNET = "internet"
OSS = "oss"
_SHARED_ADDRESSES = "100.64.0.0/10"
"""RFC 6598. Alibaba Cloud's own services have addresses in it inside a VPC, and the internal endpoints of OSS are among
them (OSS, "Internal endpoints and VIP ranges"); the ranges of one region are not fixed."""
_NOT_THE_INTERNET = (
    "0.0.0.0/8", "10.0.0.0/8", _SHARED_ADDRESSES, "127.0.0.0/8", LINK_LOCAL, "172.16.0.0/12", "192.168.0.0/16",
    "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""IANA's special-purpose addresses: private networks, which clusters and VPCs use, link-local ones and the like."""
_BLOCKS: dict[str, Manifest] = {
    INTERNET: {"cidr": "0.0.0.0/0", "except": list(_NOT_THE_INTERNET)},
    OSS: {"cidr": _SHARED_ADDRESSES, "except": [METADATA]},
}
"""What the names stand for, as the ipBlock of a network policy."""
_WIDEST = 8
"""Shortest prefix of a CIDR: no private network is wider than 10.0.0.0/8."""


def _destination(value: str) -> str:
    if value in _BLOCKS:
        return value
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(_not_a_range(value)) from None
    if network.prefixlen < _WIDEST:
        limit = f"is wider than /{_WIDEST}, and covers the networks of clusters, too"
        raise ValueError(f'{limit}. Fix: write "internet", or a narrower range')
    if "/" in value and value.partition("/")[0] != str(network.network_address):
        raise ValueError(f"has bits set beyond /{network.prefixlen}. Fix: write {network}")
    for closed, what in CLOSED.items():
        if network.overlaps(IPv4Network(closed)):
            raise ValueError(f"contains {what} ({closed}). Fix: write narrower ranges without {closed}")
    return str(network)


def _not_a_range(value: str) -> str:
    try:
        IPv6Network(value, strict=False)
    except ValueError:
        limit = "is not an address range; network policies cannot use host names, whose addresses change"
        return f'{limit}. Fix: write a CIDR such as 203.0.113.7/32, or "internet" or "oss"'
    return "is an IPv6 range, but pods have only IPv4 addresses. Fix: write the host's IPv4 addresses"


Destination = Annotated[str, AfterValidator(_destination)]
"""A range of IPv4 addresses, or one of the names in `_BLOCKS`."""


@checked("egress")
@dataclass(frozen=True, kw_only=True)
class Egress:
    """One destination that pods may connect to over TCP."""

    to: Destination
    """A CIDR such as 203.0.113.0/24; "internet": all public addresses, so neither private networks, which the cluster
    and its VPC use, nor the metadata of nodes; or "oss": the internal endpoints of Alibaba Cloud's object store."""
    ports: Sequence[int] = (443,)
    """TCP ports."""

    def __post_init__(self) -> None:
        """Refuse ports that no server has.

        Raises:
            RefusalError: naming the port, or that there is none.
        """
        if not self.ports:
            raise RefusalError("egress.ports", self.ports, "opens nothing", "list the server's ports, or omit it: 443")
        for port in self.ports:
            check_range("egress.ports", port, 1, 65535)

    def __str__(self) -> str:
        """Return it as `athanor run --egress` takes it."""
        return f"{self.to}:{','.join(map(str, self.ports))}"

    @property
    def peer(self) -> Manifest:
        """The peer of a network policy's rule."""
        return {"ipBlock": _BLOCKS.get(self.to, {"cidr": self.to})}


def check_egress(rules: Sequence[Egress], networks: Sequence[str]) -> None:
    """Refuse a CIDR that contains a whole network of the cluster; single hosts in one may be named.

    Args:
        rules: Those of a job.
        networks: CIDRs of the cluster's own networks, as far as they are known.

    Raises:
        RefusalError: naming the rule and the network.
    """
    for rule in rules:
        for own in () if rule.to in _BLOCKS else networks:
            if IPv4Network(own).subnet_of(IPv4Network(rule.to)):
                limit = f"contains {own}, a whole network of the cluster"
                raise RefusalError("egress.to", rule.to, limit, "name the hosts that the job needs, such as a /32 each")
