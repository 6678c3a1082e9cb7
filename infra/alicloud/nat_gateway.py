"""The NAT gateway of an environment: access to the internet for nodes and pods without public addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.names import resource_name, tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.alicloud import AlicloudSettings


@dataclass(frozen=True, kw_only=True)
class NatGatewayArgs:
    """Arguments of `declare_nat_gateway`."""

    settings: AlicloudSettings
    vpc_id: pulumi.Output[str]
    node_vswitch_ids: Mapping[str, pulumi.Output[str]]
    """Ids by zone."""
    pod_vswitch_ids: Mapping[str, pulumi.Output[str]]
    """Ids by zone."""


def declare_nat_gateway(args: NatGatewayArgs, network: pulumi.Resource) -> tuple[pulumi.Resource, ...]:
    """Declare the gateway, its address, and one SNAT entry for each vswitch; return the entries.

    Args:
        args: Where it goes.
        network: The parent. In protected environments gateway and address are protected: others have let the address
            in.
    """
    settings = args.settings
    children = pulumi.ResourceOptions(parent=network)
    protected = pulumi.ResourceOptions(parent=network, protect=True if settings.protected else None)
    gateway = alicloud.vpc.NatGateway(
        "nat-gateway",
        nat_gateway_name=resource_name("nat"),
        vpc_id=args.vpc_id,
        vswitch_id=args.node_vswitch_ids[settings.zones[0]],
        nat_type="Enhanced",
        network_type="internet",
        payment_type="PayAsYouGo",
        internet_charge_type="PayByLcu",
        deletion_protection=settings.protected,
        tags=tags(settings),
        opts=protected,
    )
    address = alicloud.ecs.EipAddress(
        "nat-address",
        address_name=resource_name("nat"),
        bandwidth=str(settings.network.nat_bandwidth_mbps),
        payment_type="PayAsYouGo",
        internet_charge_type="PayByTraffic",
        isp="BGP",
        tags=tags(settings),
        opts=protected,
    )
    association = alicloud.ecs.EipAssociation(
        "nat-address-association",
        allocation_id=address.id,
        instance_id=gateway.id,
        instance_type="Nat",
        # An address belongs to one gateway at a time.
        opts=pulumi.ResourceOptions.merge(children, pulumi.ResourceOptions(delete_before_replace=True)),
    )
    return tuple(
        alicloud.vpc.SnatEntry(
            f"snat-{thing}",
            snat_entry_name=resource_name(f"snat-{thing}"),
            snat_table_id=gateway.snat_table_ids,
            snat_ip=address.ip_address,
            source_vswitch_id=vswitch_id,
            # The cloud refuses an entry before its address is bound, and to unbind the address before its entries are
            # gone.
            opts=pulumi.ResourceOptions.merge(children, pulumi.ResourceOptions(depends_on=[association])),
        )
        for thing, vswitch_id in _sources(args)
    )


def _sources(args: NatGatewayArgs) -> list[tuple[str, pulumi.Output[str]]]:
    """Return every vswitch once: an existing one may be shared by nodes and pods, and takes one SNAT entry."""
    existing = args.settings.network.existing
    sources = [(f"nodes-{zone}", vswitch_id) for zone, vswitch_id in args.node_vswitch_ids.items()]
    for zone, vswitch_id in args.pod_vswitch_ids.items():
        if not (existing and existing.pod_vswitch_ids[zone] in existing.node_vswitch_ids.values()):
            sources.append((f"pods-{zone}", vswitch_id))
    return sources
