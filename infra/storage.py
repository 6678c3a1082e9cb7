"""The volumes every workload sees: input under /data/data, results under /data/output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.machine import LOCAL_NODE, local_home
from infra.manifests import Manifest, resource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from infra.settings.storage import StorageSettings

DATA_CLAIM = "data"
OUTPUT_CLAIM = "output"


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
            "capacity": {"storage": f"{size_gib}Gi"},
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
            "resources": {"requests": {"storage": f"{size_gib}Gi"}},
            **source,
        },
    }


@dataclass(frozen=True, kw_only=True)
class SharedStorageArgs:
    """Arguments of SharedStorage."""

    namespace: str
    settings: StorageSettings
    on_node_folders: bool
    """True on the local cluster: volumes are folders of its node instead of a StorageClass's."""
    depends_on: Sequence[pulumi.Resource] = ()
    """What must exist before the claims: their namespace. (A component's own option does not reach its children.)"""


class SharedStorage(pulumi.ComponentResource):
    """The `data` and `output` claims of the workload namespace."""

    claims: tuple[pulumi.CustomResource, ...]
    """The claims; workloads depend on them."""

    def __init__(self, name: str, args: SharedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:SharedStorage", name, None, opts)
        sizes = {DATA_CLAIM: args.settings.data_size_gib, OUTPUT_CLAIM: args.settings.output_size_gib}
        self.claims = tuple(self._claim(claim, size, args) for claim, size in sizes.items())
        self.register_outputs({"data_claim": DATA_CLAIM, "output_claim": OUTPUT_CLAIM})

    def _claim(self, claim: str, size_gib: int, args: SharedStorageArgs) -> pulumi.CustomResource:
        mode = args.settings.access_mode
        source: Manifest = {"storageClassName": args.settings.storage_class} if args.settings.storage_class else {}
        depends_on = list(args.depends_on)
        if args.on_node_folders:
            volume = f"{args.namespace}-{claim}"
            folder = NodeFolder(node=LOCAL_NODE, path=local_volume_folder(claim))
            manifest = node_folder_volume_manifest(volume, folder, size_gib, mode)
            depends_on.append(resource(f"{claim}-volume", manifest, pulumi.ResourceOptions(parent=self)))
            source = {"volumeName": volume, "storageClassName": ""}
        manifest = claim_manifest(claim, args.namespace, size_gib, mode, source)
        return resource(claim, manifest, pulumi.ResourceOptions(parent=self, depends_on=depends_on))
