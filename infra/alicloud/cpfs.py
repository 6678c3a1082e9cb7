"""CPFS: the parallel file system, its NFS protocol service and the export of its root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.file_system import Export, FileSystemPlace, FileSystemVolumes, once_accepted, zone_of
from infra.alicloud.names import resource_name, tags

if TYPE_CHECKING:
    from infra.settings.storage import CpfsFileSystem

# The provider creates permission groups for NAS alone. An export is reached through its own addresses in the VPC, so
# what this group lets in is the VPC, whatever its rule says.
_EVERYBODY_IN_THE_VPC = "DEFAULT_VPC_GROUP_NAME"


@dataclass(frozen=True, kw_only=True)
class CpfsStorageArgs:
    """Arguments of CpfsStorage."""

    place: FileSystemPlace
    file_system: CpfsFileSystem


class CpfsStorage(pulumi.ComponentResource):
    """A CPFS file system, exported over NFS to the VPC; protected like a NAS one.

    The provider does not return the domain of the export that it creates. The first `up` creates it and says so; the
    operator looks the domain up in the console and sets it; the second `up` creates the volumes.
    """

    backing: FileSystemVolumes
    """Backing of SharedStorage's claims."""

    def __init__(self, name: str, args: CpfsStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:CpfsStorage", name, None, opts)
        settings, cpfs = args.place.settings, args.file_system
        zone = zone_of(cpfs, settings)
        vpc_id, vswitch_id = args.place.network.vpc_id, args.place.network.node_vswitch_ids[zone]
        keep = pulumi.ResourceOptions(parent=self, protect=True if settings.protected else None)
        file_system = alicloud.nas.FileSystem(
            name,
            file_system_type="cpfs",
            protocol_type="cpfs",
            storage_type=cpfs.storage_type,
            capacity=cpfs.capacity_gib,
            zone_id=once_accepted(zone, args.place.network),
            vpc_id=vpc_id,
            vswitch_id=vswitch_id,
            description=resource_name("cpfs"),
            tags=tags(settings),
            opts=keep,
        )
        service = alicloud.nas.ProtocolService(
            f"{name}-nfs",
            file_system_id=file_system.id,
            protocol_type="NFS",
            protocol_spec="General",
            vpc_id=vpc_id,
            vswitch_id=vswitch_id,
            opts=keep,
        )
        export = alicloud.nas.ProtocolMountTarget(
            f"{name}-export",
            file_system_id=file_system.id,
            protocol_service_id=service.protocol_service_id,
            path="/",
            access_group_name=_EVERYBODY_IN_THE_VPC,
            vpc_id=vpc_id,
            vswitch_id=vswitch_id,
            opts=keep,
        )
        self.backing = FileSystemVolumes(export=self._export(cpfs.export_domain))
        self.register_outputs({"file_system_id": file_system.id, "export_id": export.export_id})

    def _export(self, domain: str | None) -> Export | None:
        if domain is not None:
            return Export(server=domain, root="/share", protocol="cpfs-nfs")
        pulumi.log.warn(
            "The claims wait for their volumes: read the domain of the CPFS export in the console (NAS, protocol"
            " services), set it as storage.nas.export_domain and run `pulumi up` again.",
            resource=self,
        )
        return None
