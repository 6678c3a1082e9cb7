"""All storage of an environment: its file system, StorageClasses and buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.file_system import (
    NAS_DRIVER,
    NFS_OPTIONS,
    Export,
    FileSystemPlace,
    FileSystemVolumes,
    client_cidrs,
    once_accepted,
    zone_of,
)
from infra.alicloud.names import resource_name, tags
from infra.alicloud.oss import OssMounts, OssMountsArgs
from infra.manifests import FixedFields, Manifest, replaceable_resource
from infra.settings.storage import (
    CpfsFileSystem,
    DiskClass,
    ExistingFileSystem,
    ExtremeNas,
    NasClass,
    StandardNas,
    StorageSettings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from infra.alicloud.ack_cluster import AckCluster
    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings


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


DISK_DRIVER = "diskplugin.csi.alibabacloud.com"
_FIXED_FIELDS = FixedFields(
    fixed=("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"), constant="allowVolumeExpansion"
)
"""Fields of a StorageClass that cannot change. Volumes keep what they were created with."""


@dataclass(frozen=True, kw_only=True)
class StorageClassesArgs:
    """Arguments of StorageClasses."""

    classes: Sequence[NasClass | DiskClass]
    export: Export | None
    """Export from which the file system is mounted; None while its domain is not known: its classes are then left
    out."""
    protected: bool
    """Whether a volume outlives its claim unless its class says otherwise."""
    depends_on: Sequence[pulumi.Resource] = ()
    """The add-ons with the drivers."""


def nas_class_manifest(settings: NasClass, export: Export, *, protected: bool) -> Manifest:
    """Return a StorageClass of the file system: every claim gets a folder below the class's."""
    parameters = {
        "volumeAs": "subpath",
        "server": pulumi.Output.concat(export.server, ":", export.path(settings.path), "/"),
        "mountProtocol": export.protocol,
        "archiveOnDelete": "true" if settings.archive_on_delete else "false",
    }
    return {
        **_metadata(settings.name),
        "provisioner": NAS_DRIVER,
        "parameters": parameters,
        "mountOptions": list(NFS_OPTIONS),
        "reclaimPolicy": _reclaim(settings, protected=protected),
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
    }


def disk_class_manifest(settings: DiskClass, *, protected: bool) -> Manifest:
    """Return a StorageClass of ESSDs: a disk is created in the zone of its first pod: no other zone can reach it."""
    return {
        **_metadata(settings.name),
        "provisioner": DISK_DRIVER,
        "parameters": {
            "type": "cloud_essd",
            "performanceLevel": settings.performance_level,
            "encrypted": "true" if settings.encrypted else "false",
            "csi.storage.k8s.io/fstype": settings.file_system,
        },
        "reclaimPolicy": _reclaim(settings, protected=protected),
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def _metadata(name: str) -> Manifest:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}


def _reclaim(settings: NasClass | DiskClass, *, protected: bool) -> str:
    return settings.reclaim or ("Retain" if protected else "Delete")


class StorageClasses(pulumi.ComponentResource):
    """The StorageClasses of an environment."""

    def __init__(self, name: str, args: StorageClassesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:StorageClasses", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on))
        manifests = class_manifests(args)
        for class_name, manifest in manifests.items():
            replaceable_resource(class_name, manifest, _FIXED_FIELDS, child)
        self.register_outputs({"classes": list(manifests)})


def class_manifests(args: StorageClassesArgs) -> dict[str, Manifest]:
    """Return the StorageClasses that can be created, by name."""
    manifests = {storage_class.name: _manifest(storage_class, args) for storage_class in args.classes}
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


def _manifest(settings: NasClass | DiskClass, args: StorageClassesArgs) -> Manifest | None:
    if isinstance(settings, DiskClass):
        return disk_class_manifest(settings, protected=args.protected)
    return nas_class_manifest(settings, args.export, protected=args.protected) if args.export else None


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


@dataclass(frozen=True, kw_only=True)
class AlicloudStorageArgs:
    """Arguments of AlicloudStorage."""

    settings: AlicloudSettings
    storage: StorageSettings
    network: AlicloudNetwork
    cluster: AckCluster
    namespace: str
    """Namespace of the buckets' claims."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies of objects in the cluster: that namespace and the add-ons with the drivers."""


class AlicloudStorage(pulumi.ComponentResource):
    """The storage of an environment. Needs both providers, Alibaba Cloud's and the cluster's, in its options."""

    backing: FileSystemVolumes
    """Backing of SharedStorage's `data` and `output` claims."""
    claims: tuple[pulumi.CustomResource, ...]
    """Claims of the buckets."""

    def __init__(self, name: str, args: AlicloudStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:AlicloudStorage", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.backing = self._file_system(args)
        classes = StorageClassesArgs(
            classes=args.storage.classes,
            export=self.backing.export,
            protected=args.settings.protected,
            depends_on=args.depends_on,
        )
        if class_manifests(classes):
            StorageClasses("classes", classes, child)
        self.claims = self._buckets(args) if args.storage.oss else ()
        self.register_outputs({})

    def _file_system(self, args: AlicloudStorageArgs) -> FileSystemVolumes:
        place = FileSystemPlace(settings=args.settings, network=args.network)
        child = pulumi.ResourceOptions(parent=self)
        file_system = args.storage.file_system
        if isinstance(file_system, ExistingFileSystem):
            return FileSystemVolumes(export=Export(server=file_system.server, root=file_system.root))
        if isinstance(file_system, CpfsFileSystem):
            return CpfsStorage("cpfs", CpfsStorageArgs(place=place, file_system=file_system), child).backing
        return NasStorage("nas", NasStorageArgs(place=place, file_system=file_system), child).backing

    def _buckets(self, args: AlicloudStorageArgs) -> tuple[pulumi.CustomResource, ...]:
        mounts = OssMountsArgs(
            settings=args.settings,
            mounts=args.storage.oss,
            namespace=args.namespace,
            oidc_issuer_url=args.cluster.oidc_issuer_url,
            oidc_provider_arn=args.cluster.oidc_provider_arn,
            depends_on=args.depends_on,
        )
        return OssMounts("oss", mounts, pulumi.ResourceOptions(parent=self)).claims
