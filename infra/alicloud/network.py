"""The network of an environment: VPC, vswitches, egress, the security group of nodes and pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.addresses import check_existing_vswitches, check_pod_addresses, plan_addresses
from infra.alicloud.names import resource_name, tags
from infra.create_only import CreateOnly, given_and_changed, given_and_not_only_longer, guard

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.alicloud_network import ExistingNetworkSettings


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


CREATE_ONLY = (
    CreateOnly(
        input="zones",
        setting="alicloud.zones",
        limit="each has its place in the VPC's address range, and Terway keeps using its pod vswitch",
        fix="restore these zones, in this order, and add others after them",
        forbids=given_and_not_only_longer,
    ),
    CreateOnly(
        input="cidr",
        setting="alicloud.network.cidr",
        limit="every vswitch is a part of it",
        fix="restore it, and create another environment for other addresses",
        forbids=given_and_changed,
    ),
)
"""Inputs that are fixed when the network is created. Its own inputs hold it: those of the cluster are ids of
vswitches."""


@dataclass(frozen=True, kw_only=True)
class AlicloudNetworkArgs:
    """Arguments of AlicloudNetwork."""

    settings: AlicloudSettings
    registry_instance: str | None = None
    """Container Registry instance that nodes pull from: it has to be linked with the VPC."""


class AlicloudNetwork(pulumi.ComponentResource):
    """A VPC with a node and a pod vswitch in each zone, one NAT gateway and one security group.

    In an existing VPC, creates only what the settings do not name. Resources that contain everything else, or an
    address that others have allowed, are protected in protected environments: then `destroy` is refused while it is
    planned, not half-way by the cloud.
    """

    vpc_id: pulumi.Output[str]
    node_vswitch_ids: dict[str, pulumi.Output[str]]
    """Ids by zone."""
    pod_vswitch_ids: dict[str, pulumi.Output[str]]
    """Ids by zone."""
    security_group_id: pulumi.Output[str]
    ready: tuple[pulumi.Resource, ...]
    """Dependencies of nodes, which must exist as long as they do: its egress and the rules of its security group."""

    def __init__(self, name: str, args: AlicloudNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._settings = settings = args.settings
        self._registry_instance = args.registry_instance
        fixed = {
            "zones": list(settings.zones),
            "cidr": None if settings.network.existing else str(settings.network.cidr),
        }
        own = pulumi.ResourceOptions(hooks=guard(f"{name}-create-only", CREATE_ONLY))
        super().__init__("athanor:infra:AlicloudNetwork", name, fixed, pulumi.ResourceOptions.merge(opts, own))
        self._tags = tags(settings)
        check_existing_vswitches(settings)
        check_pod_addresses(settings)
        if settings.network.existing:
            self._use(settings.network.existing)
        else:
            self._create_vpc()
        rules = self._security_group()
        self.ready = (*rules, *(self._egress() if settings.network.nat_gateway else ()))
        self.register_outputs({"vpc_id": self.vpc_id, "security_group_id": self.security_group_id})

    def _options(self, *, protect: bool = False) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, protect=True if protect and self._settings.protected else None)

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
        link = self._registry_link()
        self.node_vswitch_ids = {
            at.zone: self._vswitch(f"nodes-{at.zone}", at.zone, at.nodes, link if at is plan[0] else None)
            for at in plan
        }
        self.pod_vswitch_ids = {at.zone: self._vswitch(f"pods-{at.zone}", at.zone, at.pods) for at in plan}

    def _registry_link(self) -> pulumi.ResourceHookBinding | None:
        """Return the hooks of the first vswitch that say how nodes there reach the registry instance.

        No VPC reaches an Enterprise Edition instance until somebody links them (Container Registry, "Configure access
        over VPCs"). The instance is not the stack's, and may be another account's: the command is left to its owner.
        """
        if not self._registry_instance:
            return None
        instance, region = self._registry_instance, self._settings.region

        def advise(args: pulumi.ResourceHookArgs) -> None:
            made = args.new_outputs or {}
            pulumi.log.warn(
                f"Pods wait with ImagePullBackOff until the registry instance is linked with this VPC: aliyun cr"
                f" CreateInstanceVpcEndpointLinkedVpc --RegionId {region} --InstanceId {instance} --ModuleName Registry"
                f" --VpcId {made.get('vpcId')} --VswitchId {args.id} --EnableCreateDNSRecordInPvzt true"
            )

        return pulumi.ResourceHookBinding(after_create=[pulumi.ResourceHook("registry-link", advise)])

    def _vswitch(
        self, thing: str, zone: str, addresses: IPv4Network, hooks: pulumi.ResourceHookBinding | None = None
    ) -> pulumi.Output[str]:
        vswitch = alicloud.vpc.Switch(
            thing,
            vswitch_name=resource_name(thing),
            vpc_id=self.vpc_id,
            zone_id=zone,
            cidr_block=str(addresses),
            tags=self._tags,
            opts=pulumi.ResourceOptions.merge(self._options(protect=True), pulumi.ResourceOptions(hooks=hooks)),
        )
        return vswitch.id

    def _security_group(self) -> tuple[pulumi.Resource, ...]:
        existing = self._settings.network.existing
        if existing and existing.security_group_id:
            self.security_group_id = pulumi.Output.from_input(existing.security_group_id)
            return ()
        # A basic group takes 6,000 addresses, every pod's among them, and its type is fixed at creation; an enterprise
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
        # cannot name a group: "inside" means every address of the VPC.
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

    def _egress(self) -> tuple[pulumi.Resource, ...]:
        args = NatGatewayArgs(
            settings=self._settings,
            vpc_id=self.vpc_id,
            node_vswitch_ids=self.node_vswitch_ids,
            pod_vswitch_ids=self.pod_vswitch_ids,
        )
        return declare_nat_gateway(args, self)
