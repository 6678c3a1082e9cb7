"""NAS, general-purpose and Extreme: the file system, its access group and its mount target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.file_system import Export, FileSystemPlace, FileSystemVolumes, client_cidrs, once_accepted, zone_of
from infra.alicloud.names import resource_name, tags
from infra.settings.storage import ExtremeNas, StandardNas

if TYPE_CHECKING:
    from ipaddress import IPv4Network


@dataclass(frozen=True, kw_only=True)
class NasStorageArgs:
    """Arguments of NasStorage."""

    place: FileSystemPlace
    file_system: StandardNas | ExtremeNas


def file_system_inputs(nas: StandardNas | ExtremeNas, zone: pulumi.Input[str]) -> dict[str, Any]:
    """Return the inputs that differ between the kinds of file systems."""
    inputs: dict[str, Any] = {
        "file_system_type": nas.mode,
        "storage_type": nas.storage_type,
        "protocol_type": "NFS",
        "zone_id": zone,
        "encrypt_type": 1 if nas.encrypted else 0,
    }
    if isinstance(nas, ExtremeNas):
        inputs["capacity"] = nas.capacity_gib
        if nas.kms_key_id:
            inputs |= {"encrypt_type": 2, "kms_key_id": nas.kms_key_id}
    elif nas.recycle_bin_days is not None:
        inputs["recycle_bin"] = {"status": "Enable", "reserved_days": nas.recycle_bin_days}
    return inputs


def access_rule_inputs(nas: StandardNas | ExtremeNas, cidr: IPv4Network) -> dict[str, Any]:
    """Return the rule that lets one network mount the file system."""
    return {
        "file_system_type": nas.mode,
        "source_cidr_ip": str(cidr),
        "rw_access_type": "RDWR",
        # The driver mounts as the node's root and makes the claims' folders; pods act as their own user.
        "user_access_type": "no_squash",
        "priority": 1,
    }


class NasStorage(pulumi.ComponentResource):
    """A NAS file system that the nodes of an environment can mount, and nobody else.

    In a protected environment the file system and its mount target refuse deletion and replacement. They are not
    merely retained: a destroy that leaves a file system behind would look complete while it keeps costing money.
    """

    backing: FileSystemVolumes
    """Backing of SharedStorage's claims."""

    def __init__(self, name: str, args: NasStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:NasStorage", name, None, opts)
        settings, network, nas = args.place.settings, args.place.network, args.file_system
        zone = zone_of(nas, settings)
        child = pulumi.ResourceOptions(parent=self)
        keep = pulumi.ResourceOptions(parent=self, protect=True if settings.protected else None)
        group = alicloud.nas.AccessGroup(
            f"{name}-clients",
            access_group_name=resource_name("nas"),
            access_group_type="Vpc",
            file_system_type=nas.mode,
            opts=child,
        )
        rules = [
            alicloud.nas.AccessRule(
                f"{name}-allow-{str(cidr).replace('/', '-')}",
                access_group_name=group.access_group_name,
                **access_rule_inputs(nas, cidr),
                opts=child,
            )
            for cidr in client_cidrs(nas, settings)
        ]
        file_system = alicloud.nas.FileSystem(
            name,
            description=resource_name("nas"),
            tags=tags(settings),
            **file_system_inputs(nas, once_accepted(zone, network)),
            opts=keep,
        )
        # One is enough: every zone of the VPC reaches it.
        target = alicloud.nas.MountTarget(
            f"{name}-mount",
            file_system_id=file_system.id,
            access_group_name=group.access_group_name,
            network_type="Vpc",
            vpc_id=network.vpc_id,
            vswitch_id=network.node_vswitch_ids[zone],
            # Else a node could try to mount before anybody may, and a refused mount is tried again only minutes later.
            opts=pulumi.ResourceOptions.merge(keep, pulumi.ResourceOptions(depends_on=rules)),
        )
        root = "/share" if isinstance(nas, ExtremeNas) else ""
        self.backing = FileSystemVolumes(export=Export(server=target.mount_target_domain, root=root))
        self.register_outputs({"file_system_id": file_system.id, "server": target.mount_target_domain})
