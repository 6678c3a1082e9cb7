"""All storage of an environment: its file system, StorageClasses and buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.alicloud.cpfs import CpfsStorage, CpfsStorageArgs
from infra.alicloud.file_system import Export, FileSystemPlace, FileSystemVolumes
from infra.alicloud.nas import NasStorage, NasStorageArgs
from infra.alicloud.oss import OssMounts, OssMountsArgs
from infra.alicloud.storage_classes import StorageClasses, StorageClassesArgs, class_manifests
from infra.settings.storage import CpfsFileSystem, ExistingFileSystem, StorageSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.alicloud.ack_cluster import AckCluster
    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings


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
