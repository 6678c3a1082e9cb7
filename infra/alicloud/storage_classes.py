"""StorageClasses for users' own claims: folders of the file system, and disks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.alicloud.file_system import NAS_DRIVER, NFS_OPTIONS, Export
from infra.manifests import FixedFields, Manifest, replaceable_resource
from infra.settings.storage import DiskClass, NasClass

if TYPE_CHECKING:
    from collections.abc import Sequence

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
