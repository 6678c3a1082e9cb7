"""The common part of an environment's file systems: location, access group, and access from pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.alicloud.addresses import plan_addresses
from infra.errors import RefusalError, choices
from infra.kubernetes.quantities import gib_quantity
from infra.storage import VolumeRequest, static_source

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    import pulumi

    from infra.alicloud.network import AlicloudNetwork
    from infra.manifests import Manifest
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.storage import CpfsFileSystem, ExtremeNas, StandardNas

NAS_DRIVER = "nasplugin.csi.alibabacloud.com"
NFS_OPTIONS = ("nolock", "tcp", "noresvport", "vers=3")


@dataclass(frozen=True, kw_only=True)
class FileSystemPlace:
    """The location of a new file system."""

    settings: AlicloudSettings
    network: AlicloudNetwork


@dataclass(frozen=True, kw_only=True)
class Export:
    """The export of a file system that nodes mount."""

    server: pulumi.Input[str]
    """Domain name of the mount target."""
    root: str = ""
    """Prefix of every path: nothing, or `/share` where the service says so."""
    protocol: str = "nfs"
    """The driver's `mountProtocol`."""

    def path(self, folder: str) -> str:
        """Return the path of a folder such as `/data` as the server knows it."""
        return self.root + folder


def zone_of(file_system: StandardNas | ExtremeNas | CpfsFileSystem, settings: AlicloudSettings) -> str:
    """Return the zone of a file system.

    Raises:
        RefusalError: it is not one of the environment's, so it has no vswitch for the mount target.
    """
    zone = file_system.zone or settings.zones[0]
    if zone not in settings.zones:
        raise RefusalError(
            "athanor:storage.nas.zone", zone, "is not a zone of the environment", choices(zone, settings.zones)
        )
    return zone


def once_accepted(zone: str, network: AlicloudNetwork) -> pulumi.Output[str]:
    """Return the zone of a file system when the network has accepted the environment's zones.

    Another zone replaces the file system, with its files, and the engine does not wait for the network's refusal.
    """
    return network.urn.apply(lambda _: zone)


def client_cidrs(file_system: StandardNas | ExtremeNas, settings: AlicloudSettings) -> tuple[IPv4Network, ...]:
    """Return who may mount a file system: what the settings name, else every node vswitch.

    The driver mounts on the node, as its root, for the pods there; no pod mounts by itself.

    Raises:
        RefusalError: the vswitches exist already, so their addresses are not known while planning.
    """
    if file_system.client_cidrs:
        return file_system.client_cidrs
    if settings.network.existing is not None:
        raise RefusalError(
            "athanor:storage.nas.client_cidrs",
            [],
            "the addresses of existing vswitches are not known before the update",
            "list the CIDRs of the node vswitches",
        )
    return tuple(zone.nodes for zone in plan_addresses(settings))


def volume_manifest(request: VolumeRequest, export: Export) -> Manifest:
    """Return a PersistentVolume for the folder of the file system that is named after the claim.

    The driver makes the folder at the first mount. Its mode lets the pods' user write: the driver makes it as root, and
    kubelet gives an fsGroup to no volume that many nodes share.
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": request.volume},
        "spec": {
            "capacity": {"storage": gib_quantity(request.size_gib)},
            "accessModes": [request.access_mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "mountOptions": list(NFS_OPTIONS),
            "csi": {
                "driver": NAS_DRIVER,
                "volumeHandle": request.volume,
                "volumeAttributes": {
                    "server": export.server,
                    "path": export.path(f"/{request.claim}"),
                    "mountProtocol": export.protocol,
                    "mode": "0777",
                },
            },
        },
    }


@dataclass(frozen=True, kw_only=True)
class FileSystemVolumes:
    """Backing of an environment on Alibaba Cloud: folders of its file system."""

    export: Export | None
    """None while the mount target's domain is not known: the claims then wait for their volumes."""

    def volume(self, request: VolumeRequest) -> Manifest | None:
        """Return the volume of the claim's folder."""
        return volume_manifest(request, self.export) if self.export else None

    def claim_source(self, request: VolumeRequest) -> Manifest:
        """Bind the claim to its own volume."""
        return static_source(request.volume)
