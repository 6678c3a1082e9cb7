"""The volumes of every workload: input under /data/data, results under /data/output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from infra.errors import RefusalError
from infra.kubernetes.quantities import gib_quantity
from infra.machine import LOCAL_NODE, local_home

if TYPE_CHECKING:
    from pathlib import Path

    from infra.manifests import Manifest
    from infra.settings.stack import Settings

DATA_CLAIM = "data"
OUTPUT_CLAIM = "output"


@dataclass(frozen=True, kw_only=True)
class VolumeRequest:
    """The requirements of one of the two claims for its backing."""

    claim: str
    """Name of the claim."""
    volume: str
    """Name of the volume, if it gets one of its own."""
    size_gib: int
    access_mode: str


class Backing(Protocol):
    """The backing of the two claims' files. The manifests it returns may hold Outputs."""

    def volume(self, request: VolumeRequest) -> Manifest | None:
        """Return the PersistentVolume to declare for a claim; None if there is none to declare."""
        ...

    def claim_source(self, request: VolumeRequest) -> Manifest:
        """Return the claim's volumeName and storageClassName; empty for the cluster's default class."""
        ...


@dataclass(frozen=True, kw_only=True)
class NodeFolder:
    """A folder of one node that backs a volume."""

    node: str
    path: Path


def local_volume_folder(claim: str) -> Path:
    """Return the folder of the local node that holds a claim's files; `make up` creates it, `make down` removes it."""
    return local_home() / "volumes" / claim


def node_folder_volume_manifest(name: str, folder: NodeFolder, size_gib: int, access_mode: str) -> Manifest:
    """Return a `local` PersistentVolume: unlike hostPath it honours fsGroup, so pods can write without being root."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": gib_quantity(size_gib)},
            "accessModes": [access_mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "local": {"path": str(folder.path)},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/hostname", "operator": "In", "values": [folder.node]}
                            ]
                        }
                    ]
                }
            },
        },
    }


def claim_manifest(name: str, namespace: str, size_gib: int, access_mode: str, source: Manifest) -> Manifest:
    """Return a PersistentVolumeClaim; `source`: its volumeName, storageClassName; empty for the default class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            # A WaitForFirstConsumer class binds only when the first pod arrives, which `up` must not wait for.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "accessModes": [access_mode],
            "resources": {"requests": {"storage": gib_quantity(size_gib)}},
            **source,
        },
    }


def static_source(volume: str) -> Manifest:
    """Return the source of a claim that binds to one volume and to no other."""
    return {"volumeName": volume, "storageClassName": ""}


class NodeFolders:
    """Backing of the local cluster: folders of its node."""

    def volume(self, request: VolumeRequest) -> Manifest:
        """Return the volume of the claim's folder."""
        folder = NodeFolder(node=LOCAL_NODE, path=local_volume_folder(request.claim))
        return node_folder_volume_manifest(request.volume, folder, request.size_gib, request.access_mode)

    def claim_source(self, request: VolumeRequest) -> Manifest:
        """Bind the claim to its own volume."""
        return static_source(request.volume)


@dataclass(frozen=True, kw_only=True)
class ClassVolumes:
    """Backing of any cluster: whatever a StorageClass makes."""

    storage_class: str | None
    """Name of the class. None: the cluster's default one."""

    def volume(self, request: VolumeRequest) -> None:
        """Declare nothing."""

    def claim_source(self, request: VolumeRequest) -> Manifest:  # noqa: ARG002 - any volume of the class will do
        """Name the class."""
        return {"storageClassName": self.storage_class} if self.storage_class else {}


def choose_backing(settings: Settings, file_system: Backing | None = None) -> Backing:
    """Return the backing of the claims' files; `file_system`: that of an environment on Alibaba Cloud.

    Raises:
        RefusalError: the settings ask for storage of Alibaba Cloud on another cluster.
    """
    kinds = [name for name in ("nas", "oss") if getattr(settings.storage, name)]
    if kinds and settings.alicloud is None:
        raise RefusalError(
            f"athanor:storage.{kinds[0]}",
            getattr(settings.storage, kinds[0]),
            "is created only in an environment on Alibaba Cloud",
            "omit it, or describe the environment under alicloud",
        )
    if settings.runs_on_own_local_cluster:
        return NodeFolders()
    if file_system is None or settings.storage.storage_class:
        return ClassVolumes(storage_class=settings.storage.storage_class)
    return file_system
