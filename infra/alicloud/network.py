"""The network of an environment: VPC, vswitches, the way out, the security group of nodes and pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.addresses import check_existing_vswitches, check_pod_addresses, plan_addresses
from infra.alicloud.names import resource_name, tags

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.alicloud_network import ExistingNetworkSettings


@dataclass(frozen=True, kw_only=True)
class AlicloudNetworkArgs:
    """Arguments of AlicloudNetwork."""

    settings: AlicloudSettings


class AlicloudNetwork(pulumi.ComponentResource):
    """A VPC with a node and a pod vswitch in each zone, one NAT gateway and one security group.

    In an existing VPC only what the settings do not name is made. What holds everything else, or an address that others
    have let in, is protected in protected environments: then `destroy` is refused while it is planned, not half-way by
    the cloud.
    """

    vpc_id: pulumi.Output[str]
    node_vswitch_ids: dict[str, pulumi.Output[str]]
    """By zone."""
    pod_vswitch_ids: dict[str, pulumi.Output[str]]
    """By zone."""
    security_group_id: pulumi.Output[str]
    ready: tuple[pulumi.Resource, ...]
    """What must exist before a node starts, and until it is gone: its way out and the rules of its security group."""

    def __init__(self, name: str, args: AlicloudNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:AlicloudNetwork", name, None, opts)
        self._settings = settings = args.settings
        self._tags = tags(settings)
        check_existing_vswitches(settings)
        check_pod_addresses(settings)
        if settings.network.existing:
            self._use(settings.network.existing)
        else:
            self._create_vpc()
        rules = self._security_group()
        ways_out = self._way_out() if settings.network.nat_gateway else ()
        self.ready = (*rules, *ways_out)
        self.register_outputs({"vpc_id": self.vpc_id, "security_group_id": self.security_group_id})

    def _options(
        self, *, protect: bool = False, depends_on: tuple[pulumi.Resource, ...] = (), delete_first: bool = False
    ) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            protect=True if protect and self._settings.protected else None,
            depends_on=list(depends_on),
            delete_before_replace=delete_first or None,
        )

    def _use(self, existing: ExistingNetworkSettings) -> None:
        zones = self._settings.zones
        self.vpc_id = pulumi.Output.from_input(existing.vpc_id)
        self.node_vswitch_ids = {zone: pulumi.Output.from_input(existing.node_vswitch_ids[zone]) for zone in zones}
        self.pod_vswitch_ids = {zone: pulumi.Output.from_input(existing.pod_vswitch_ids[zone]) for zone in zones}

    def _create_vpc(self) -> None:
        vpc = alicloud.vpc.Network(
            "vpc",
            vpc_name=resource_name("vpc"),
            cidr_block=str(self._settings.network.cidr),
            tags=self._tags,
            opts=self._options(protect=True),
        )
        self.vpc_id = vpc.id
        plan = plan_addresses(self._settings)
        self.node_vswitch_ids = {at.zone: self._vswitch(f"nodes-{at.zone}", at.zone, at.nodes) for at in plan}
        self.pod_vswitch_ids = {at.zone: self._vswitch(f"pods-{at.zone}", at.zone, at.pods) for at in plan}

    def _vswitch(self, thing: str, zone: str, addresses: IPv4Network) -> pulumi.Output[str]:
        vswitch = alicloud.vpc.Switch(
            thing,
            vswitch_name=resource_name(thing),
            vpc_id=self.vpc_id,
            zone_id=zone,
            cidr_block=str(addresses),
            tags=self._tags,
            opts=self._options(protect=True),
        )
        return vswitch.id

    def _security_group(self) -> tuple[pulumi.Resource, ...]:
        existing = self._settings.network.existing
        if existing and existing.security_group_id:
            self.security_group_id = pulumi.Output.from_input(existing.security_group_id)
            return ()
        # A basic group takes 6,000 addresses, every pod's among them, and its type is fixed at birth; an enterprise
        # group takes 65,536 interfaces.
        group = alicloud.ecs.SecurityGroup(
            "security-group",
            security_group_name=resource_name("nodes-and-pods"),
            security_group_type="enterprise",
            vpc_id=self.vpc_id,
            tags=self._tags,
            opts=self._options(),
        )
        self.security_group_id = group.id
        # An enterprise group isolates its members (NCCL and RDMA would hang) and lets nothing out, and its rules
        # cannot name a group: everybody inside is whoever has an address of the VPC.
        inside = self._settings.network.vpc_cidr
        return (
            self._rule("ingress", str(inside), "Nodes, pods and the control plane reach each other"),
            self._rule("egress", "0.0.0.0/0", "Everybody inside may call out"),
        )

    def _rule(self, direction: str, cidr: str, description: str) -> pulumi.Resource:
        return alicloud.ecs.SecurityGroupRule(
            f"security-group-{direction}",
            security_group_id=self.security_group_id,
            type=direction,
            ip_protocol="all",
            port_range="-1/-1",
            # Part of the rule's id, where the provider writes <nil> for a missing one.
            nic_type="intranet",
            policy="accept",
            priority=1,
            cidr_ip=cidr,
            description=description,
            opts=self._options(),
        )

    def _way_out(self) -> tuple[pulumi.Resource, ...]:
        """Declare the NAT gateway, its address, and one SNAT entry for each vswitch."""
        settings = self._settings
        gateway = alicloud.vpc.NatGateway(
            "nat-gateway",
            nat_gateway_name=resource_name("nat"),
            vpc_id=self.vpc_id,
            vswitch_id=self.node_vswitch_ids[settings.zones[0]],
            nat_type="Enhanced",
            network_type="internet",
            payment_type="PayAsYouGo",
            internet_charge_type="PayByLcu",
            deletion_protection=settings.protected,
            tags=self._tags,
            opts=self._options(protect=True),
        )
        address = alicloud.ecs.EipAddress(
            "nat-address",
            address_name=resource_name("nat"),
            bandwidth=str(settings.network.nat_bandwidth_mbps),
            payment_type="PayAsYouGo",
            internet_charge_type="PayByTraffic",
            isp="BGP",
            tags=self._tags,
            opts=self._options(protect=True),
        )
        association = alicloud.ecs.EipAssociation(
            "nat-address-association",
            allocation_id=address.id,
            instance_id=gateway.id,
            instance_type="Nat",
            # An address belongs to one gateway at a time.
            opts=self._options(delete_first=True),
        )
        return tuple(
            alicloud.vpc.SnatEntry(
                f"snat-{thing}",
                snat_entry_name=resource_name(f"snat-{thing}"),
                snat_table_id=gateway.snat_table_ids,
                snat_ip=address.ip_address,
                source_vswitch_id=vswitch_id,
                # The cloud refuses an entry before its address is bound, and to unbind the address before its entries
                # are gone.
                opts=self._options(depends_on=(association,)),
            )
            for thing, vswitch_id in self._sources()
        )

    def _sources(self) -> list[tuple[str, pulumi.Output[str]]]:
        """Return every vswitch once: an existing one may be shared by nodes and pods, and takes one SNAT entry."""
        existing = self._settings.network.existing
        sources = [(f"nodes-{zone}", vswitch_id) for zone, vswitch_id in self.node_vswitch_ids.items()]
        for zone, vswitch_id in self.pod_vswitch_ids.items():
            if not (existing and existing.pod_vswitch_ids[zone] in existing.node_vswitch_ids.values()):
                sources.append((f"pods-{zone}", vswitch_id))
        return sources
