"""Which changes cost running work or data: replaced or deleted clusters, pools, volumes, jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.review.capacity import pool_of
from athanor.review.tolerant import as_text, at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.review.changes import Change

_THINGS = {
    "cluster": (
        "alicloud:cs/managedKubernetes:ManagedKubernetes", "alicloud:cs/kubernetes:Kubernetes",
        "alicloud:cs/serverlessKubernetes:ServerlessKubernetes", "alicloud:cs/edgeKubernetes:EdgeKubernetes",
        "aws:eks/cluster:Cluster", "gcp:container/cluster:Cluster",
        "azure-native:containerservice:ManagedCluster",
    ),
    "node pool": (
        "alicloud:cs/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool",
        "azure-native:containerservice:AgentPool",
    ),
    "volume": (
        "kubernetes:core/v1:PersistentVolumeClaim", "kubernetes:core/v1:PersistentVolume",
        "alicloud:nas/fileSystem:FileSystem", "alicloud:nas/fileset:Fileset", "alicloud:oss/bucket:Bucket",
        "alicloud:ecs/ecsDisk:EcsDisk", "alicloud:ecs/disk:Disk", "aws:ebs/volume:Volume",
        "aws:efs/fileSystem:FileSystem", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2",
    ),
    "job": (
        "kubernetes:batch.volcano.sh/v1alpha1:Job", "kubernetes:batch/v1:Job", "kubernetes:kubeflow.org/v1:PyTorchJob",
        "kubernetes:kubeflow.org/v1:TFJob", "kubernetes:kubeflow.org/v2beta1:MPIJob",
        "kubernetes:trainer.kubeflow.org/v1alpha1:TrainJob", "kubernetes:ray.io/v1:RayJob",
    ),
    "namespace": ("kubernetes:core/v1:Namespace",),
    "definition": ("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",),
}  # fmt: skip
_BY_TYPE = {token: thing for thing, tokens in _THINGS.items() for token in tokens}
THINGS = tuple(_THINGS)
"""Kinds of things with something at stake, the largest first."""
_CONSEQUENCES = {
    "cluster": "everything that runs in it stops",
    "node pool": "every pod on its nodes is evicted",
    "volume": "its files may be lost",
    "job": "it stops",
    "namespace": "everything in it is deleted with it",
    "definition": "every object of this kind is deleted with it",
}


@dataclass(frozen=True, kw_only=True)
class Stake:
    """A change with something at stake."""

    change: Change
    thing: str
    """One of THINGS."""
    consequence: str


def stakes(changes: Sequence[Change]) -> list[Stake]:
    """Return the changes with something at stake, the largest first."""
    listed = [stake for change in changes if (stake := _stake(change))]
    return sorted(listed, key=lambda stake: (THINGS.index(stake.thing), stake.change.kind, stake.change.urn))


def _stake(change: Change) -> Stake | None:
    thing = _BY_TYPE.get(change.type)
    if thing is None:
        return None
    if change.kind in {"deleted", "replaced"}:
        return Stake(change=change, thing=thing, consequence=_special(change, thing) or _CONSEQUENCES[thing])
    if change.kind == "changed" and thing == "node pool" and (smaller := _shrinks(change)):
        return Stake(change=change, thing=thing, consequence=smaller)
    return None


def _special(change: Change, thing: str) -> str:
    if thing == "job" and change.kind == "replaced":
        return "it stops and starts again, from its latest checkpoint if it has one"
    if change.type.endswith(":PersistentVolumeClaim"):
        return "what happens to its files is up to its volume's reclaim policy"
    policy = as_text(at(change.before, "spec", "persistentVolumeReclaimPolicy"))
    return "its files stay where they are (reclaim policy Retain)" if policy == "Retain" else ""


def _shrinks(change: Change) -> str:
    before, after = pool_of(change.before), pool_of(change.after)
    if before is None or after is None or after.most >= before.most:
        return ""
    return f"it shrinks from at most {before.most} to {after.most} nodes; pods on nodes beyond that are evicted"
