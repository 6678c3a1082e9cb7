"""Addresses that no workload may connect to: the metadata of nodes, and those that belong to no other host."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from infra.manifests import Manifest

METADATA = "100.100.100.200/32"
"""Of nodes on Alibaba Cloud (ECS, "Instance metadata"): a program that reads it may get the credentials of the node."""
LINK_LOCAL = "169.254.0.0/16"
METADATA_RANGES = (LINK_LOCAL, METADATA)
CLOSED = {
    METADATA: "the metadata of nodes on Alibaba Cloud",
    LINK_LOCAL: "link-local addresses, where nodes have their metadata",
    "127.0.0.0/8": "the pod itself",
    "224.0.0.0/3": "multicast and reserved addresses",
    "0.0.0.0/8": "addresses that no host has",
}
"""Ranges of IPv4 addresses, and the hosts in each."""
_CLOSED_IPV6 = {
    "::1/128": "the pod itself",
    "::/128": "addresses that no host has",
    "fe80::/10": CLOSED[LINK_LOCAL],
    "fd00:ec2::/32": "the metadata of nodes on other clouds",
    "ff00::/8": "multicast addresses",
}
_EMBEDDING = (IPv6Network("::/96"), IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Ranges whose addresses end in one of IPv4 (RFC 4291, section 2.5.5; RFC 6052)."""
_CLOSED_NAMES = {
    "localhost": CLOSED["127.0.0.0/8"],
    "metadata.google.internal": _CLOSED_IPV6["fd00:ec2::/32"],
}
ANYWHERE: list[Manifest] = [
    {"ipBlock": {"cidr": "0.0.0.0/0", "except": [*METADATA_RANGES]}},
    {"namespaceSelector": {}},
]
"""Peers of a network policy's rule for what can be at any address. Some networks take no pod for a part of an ipBlock,
so pods are named, too; they have IPv4 addresses alone."""


def check_open(field: str, value: str, host: str) -> None:
    """Refuse a host that no pod may connect to, and an IPv4 address in a notation that hides what it is.

    Args:
        field: Where it was given.
        value: What was given there.
        host: The host in it: a name or an address, in lower case.

    Raises:
        RefusalError: naming what the host is.
    """
    address, name = _address_of(host), host.rstrip(".")
    if isinstance(address, IPv4Address) and str(address) != host:
        raise RefusalError(field, value, f"has the address {address} in another notation", f"write {address}")
    what = _what_is_at(address) if address else _CLOSED_NAMES.get("localhost" if name.endswith(".localhost") else name)
    if what:
        limit = f"leads to {what}, which no pod may connect to"
        raise RefusalError(field, value, limit, "name the host of a server")


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is to a program that connects to it; None for a name."""
    with suppress(ValueError):
        return ip_address(host.partition("%")[0])
    with suppress(OSError):
        return IPv4Address(socket.inet_aton(host.rstrip(".")))  # 2852039166, 0xa9.0xfea9fe, 127.1
    return None


def _what_is_at(address: IPv4Address | IPv6Address) -> str | None:
    """Return what is at a closed address; None for any other."""
    if isinstance(address, IPv6Address):
        closed = (what for cidr, what in _CLOSED_IPV6.items() if address in IPv6Network(cidr))
        if what := next(closed, None):
            return what
        if not any(address in network for network in _EMBEDDING):
            return None
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return next((what for cidr, what in CLOSED.items() if address in IPv4Network(cidr)), None)
