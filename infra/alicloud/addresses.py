"""Address ranges of each zone's nodes and pods, and checks of their size. Pure arithmetic.

The VPC's CIDR is cut into eight equal blocks, one for each position in the list of zones. The upper half of a block is
for pods and its first sixteenth for nodes; the rest stays free. So a zone added at the end moves no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from infra.instance_types import instance_type
from infra.settings.alicloud_network import LARGEST_VPC

if TYPE_CHECKING:
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.node_pools import NodePoolSettings

MOST_ZONES = 8
_LARGEST_VSWITCH = 16
_RESERVED_BY_ALIBABA_CLOUD = 4
"""The first address and the last three of every vswitch (CreateVSwitch)."""
_WARM_POD_ADDRESSES = 5
"""Addresses that Terway may keep ready on a node beyond its pods: `max_pool_size` of its default eni-config."""
_SHARED_NODE_ADDRESSES = 8
"""Our allowance for what else lives in a node vswitch: the NAT gateway, the API server's load balancer, the control
plane's interfaces, mount targets."""


@dataclass(frozen=True, kw_only=True)
class ZoneAddresses:
    """The two vswitches of one zone."""

    zone: str
    nodes: IPv4Network
    pods: IPv4Network


def plan_addresses(settings: AlicloudSettings) -> tuple[ZoneAddresses, ...]:
    """Return the vswitches of every zone, in the order of the zones.

    Raises:
        RefusalError: there are more zones than the plan has blocks.
    """
    zones = settings.zones
    if len(zones) > MOST_ZONES:
        raise RefusalError(
            "alicloud.zones",
            list(zones),
            f"lists {len(zones)} zones, but the VPC's address range is divided into {MOST_ZONES} blocks",
            f"list at most {MOST_ZONES} zones",
        )
    return _plan(zones, settings.network.cidr)


def _plan(zones: tuple[str, ...], cidr: IPv4Network) -> tuple[ZoneAddresses, ...]:
    blocks = cidr.subnets(prefixlen_diff=3)
    return tuple(
        ZoneAddresses(
            zone=zone,
            nodes=_first(block, block.prefixlen + 4),
            pods=_first(tuple(block.subnets(prefixlen_diff=1))[1], block.prefixlen + 1),
        )
        for zone, block in zip(zones, blocks, strict=False)
    )


def _first(network: IPv4Network, prefix: int) -> IPv4Network:
    """Return the first network of that size inside, or of the largest size that a vswitch may have."""
    return IPv4Network((network.network_address, max(prefix, _LARGEST_VSWITCH)))


def check_existing_vswitches(settings: AlicloudSettings) -> None:
    """Refuse an existing network that lacks a vswitch for one of the zones.

    Raises:
        RefusalError: naming the zone.
    """
    existing = settings.network.existing
    if existing is None:
        return
    for role, vswitches in (("node", existing.node_vswitch_ids), ("pod", existing.pod_vswitch_ids)):
        missing = [zone for zone in settings.zones if zone not in vswitches]
        if missing:
            raise RefusalError(
                f"alicloud.network.existing.{role}_vswitch_ids",
                vswitches,
                f"has none in zone {missing[0]}, but every zone of the environment needs one",
                f"add {missing[0]} with the id of a {role} vswitch there, or remove the zone from alicloud.zones",
            )


def usable_addresses(vswitch: IPv4Network) -> int:
    """Addresses of a vswitch that interfaces can get."""
    return vswitch.num_addresses - _RESERVED_BY_ALIBABA_CLOUD


def nodes_by_zone(settings: AlicloudSettings, pool: NodePoolSettings) -> dict[str, int]:
    """Most nodes of a pool that each zone may come to hold.

    A balanced pool spreads evenly while every zone has stock; with any other policy all of it may end up in one zone.
    """
    zones = pool.zones or settings.zones
    most = -(-pool.maximum // len(zones)) if pool.zone_policy == "BALANCE" else pool.maximum
    return dict.fromkeys(zones, most)


def pods_per_node(pool: NodePoolSettings) -> int:
    """Most pods with an address of their own that a node of the pool can hold: that of its largest instance type."""
    return max(instance_type(name).pods(pool.eni, rdma=pool.rdma) for name in pool.instance_types)


def check_pod_addresses(settings: AlicloudSettings) -> None:
    """Refuse pools that at their maximum need more addresses than a zone's vswitches have.

    The size of vswitches that exist already is unknown before an update, so those are not checked. Pods with a trunk
    interface take addresses of the vswitches that their PodNetworking names, nodes of a Lingjun group those of its own
    network: neither is counted.

    Raises:
        RefusalError: naming the zone, what it needs and has, and the smallest CIDR that would do.
    """
    if settings.network.existing:
        return
    counted = [pool for pool in settings.node_pools if pool.lingjun is None]
    per_node = {pool.name: pods_per_node(pool) + _WARM_POD_ADDRESSES for pool in counted}
    demand = [
        _ZoneDemand(
            zone=zone,
            nodes={pool.name: nodes_by_zone(settings, pool).get(zone, 0) for pool in counted},
            addresses_per_node=per_node,
        )
        for zone in settings.zones
    ]
    for planned, needed in zip(plan_addresses(settings), demand, strict=True):
        if not needed.fits(planned):
            raise RefusalError(
                "alicloud.network.cidr",
                str(settings.network.cidr),
                needed.shortage(planned),
                _remedy(settings, demand),
            )


@dataclass(frozen=True, kw_only=True)
class _ZoneDemand:
    """The demand of a zone when all pools are at their maximum."""

    zone: str
    nodes: dict[str, int]
    addresses_per_node: dict[str, int]

    @property
    def node_addresses(self) -> int:
        return sum(self.nodes.values()) + _SHARED_NODE_ADDRESSES

    @property
    def pod_addresses(self) -> int:
        return sum(count * self.addresses_per_node[pool] for pool, count in self.nodes.items())

    def fits(self, planned: ZoneAddresses) -> bool:
        return self.pod_addresses <= usable_addresses(planned.pods) and self.node_addresses <= usable_addresses(
            planned.nodes
        )

    def shortage(self, planned: ZoneAddresses) -> str:
        terms = [
            f"{pool} {count} x {self.addresses_per_node[pool]}" for pool, count in sorted(self.nodes.items()) if count
        ]
        if self.pod_addresses > usable_addresses(planned.pods):
            return (
                f"gives {usable_addresses(planned.pods)} pod addresses in {self.zone} ({planned.pods}), but the pools"
                f" at their maximum need {self.pod_addresses} ({', '.join(terms)}: nodes x pods plus"
                f" {_WARM_POD_ADDRESSES} warm addresses)"
            )
        return (
            f"gives {usable_addresses(planned.nodes)} node addresses in {self.zone} ({planned.nodes}), but the pools"
            f" at their maximum need {self.node_addresses}, including {_SHARED_NODE_ADDRESSES} for gateways and the"
            " control plane"
        )


def _remedy(settings: AlicloudSettings, demand: list[_ZoneDemand]) -> str:
    """Name the smallest VPC that holds everything, if one does."""
    for prefix in range(settings.network.cidr.prefixlen - 1, LARGEST_VPC - 1, -1):
        plan = _plan(settings.zones, IPv4Network((0x0A000000, prefix)))
        if all(needed.fits(planned) for planned, needed in zip(plan, demand, strict=True)):
            return f"choose a /{prefix} or larger, or lower the maximum of a pool"
    return "lower the maximum of a pool, use smaller instance types, or spread the pools over more zones with BALANCE"
