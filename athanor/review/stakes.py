"""Changes that put running work or data at risk: of clusters, pools, volumes, jobs, services and queues."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.review.capacity import pool_of
from athanor.review.tolerant import as_count, as_text, at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        "alicloud:nas/fileSystem:FileSystem", "alicloud:nas/fileset:Fileset", "alicloud:nas/mountTarget:MountTarget",
        "alicloud:nas/protocolMountTarget:ProtocolMountTarget", "alicloud:oss/bucket:Bucket",
        "alicloud:ecs/ecsDisk:EcsDisk", "alicloud:ecs/disk:Disk", "aws:ebs/volume:Volume",
        "aws:efs/fileSystem:FileSystem", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2",
        "alicloud:oss/bucketObject:BucketObject", "alicloud:nas/accessGroup:AccessGroup",
        "alicloud:nas/accessRule:AccessRule", "alicloud:nas/protocolService:ProtocolService",
        "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshot",
        "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent",
    ),
    "database": (
        "alicloud:rds/instance:Instance", "alicloud:polardb/cluster:Cluster", "alicloud:kvstore/instance:Instance",
        "alicloud:mongodb/instance:Instance", "aws:rds/instance:Instance", "aws:rds/cluster:Cluster",
        "gcp:sql/databaseInstance:DatabaseInstance",
    ),
    "key": ("alicloud:kms/key:Key", "aws:kms/key:Key", "gcp:kms/cryptoKey:CryptoKey"),
    "log store": ("alicloud:log/project:Project", "alicloud:log/store:Store"),
    "image repository": (
        "alicloud:cr/repo:Repo", "alicloud:cr/namespace:Namespace",
        "alicloud:cs/registryEnterpriseRepo:RegistryEnterpriseRepo",
        "alicloud:cs/registryEnterpriseNamespace:RegistryEnterpriseNamespace",
        "alicloud:cr/registryEnterpriseInstance:RegistryEnterpriseInstance",
    ),
    "release": ("kubernetes:helm.sh/v3:Release",),
    "network": (
        "alicloud:vpc/network:Network", "alicloud:vpc/switch:Switch", "alicloud:vpc/natGateway:NatGateway",
        "alicloud:ecs/eipAddress:EipAddress", "alicloud:ecs/securityGroup:SecurityGroup", "aws:ec2/vpc:Vpc",
        "aws:ec2/subnet:Subnet", "aws:ec2/natGateway:NatGateway", "gcp:compute/network:Network",
        "alicloud:vpc/snatEntry:SnatEntry", "alicloud:ecs/eipAssociation:EipAssociation",
    ),
    "job": (
        "kubernetes:batch.volcano.sh/v1alpha1:Job", "kubernetes:batch/v1:Job", "kubernetes:kubeflow.org/v1:PyTorchJob",
        "kubernetes:kubeflow.org/v1:TFJob", "kubernetes:kubeflow.org/v2beta1:MPIJob",
        "kubernetes:trainer.kubeflow.org/v1alpha1:TrainJob", "kubernetes:ray.io/v1:RayJob",
        "kubernetes:ray.io/v1:RayCluster", "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
        "kubernetes:batch/v1:CronJob", "kubernetes:core/v1:Pod",
    ),
    "service": (
        "kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet", "kubernetes:core/v1:Service",
        "kubernetes:gateway.networking.k8s.io/v1:Gateway", "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
        "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute", "kubernetes:gateway.networking.k8s.io/v1:TCPRoute",
        "kubernetes:networking.k8s.io/v1:Ingress", "kubernetes:apps/v1:ReplicaSet",
        "kubernetes:core/v1:ReplicationController", "kubernetes:serving.kserve.io/v1beta1:InferenceService",
        "kubernetes:serving.knative.dev/v1:Service", "kubernetes:ray.io/v1:RayService",
    ),
    "queue": (
        "kubernetes:scheduling.volcano.sh/v1beta1:Queue", "kubernetes:kueue.x-k8s.io/v1beta1:ClusterQueue",
        "kubernetes:kueue.x-k8s.io/v1beta1:LocalQueue",
    ),
    "namespace": ("kubernetes:core/v1:Namespace",),
    "add-on": ("alicloud:cs/kubernetesAddon:KubernetesAddon", "kubernetes:apps/v1:DaemonSet"),
    "definition": ("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",),
}  # fmt: skip
_VERSION = re.compile(r"(?<=^kubernetes:)([^/:]+)/[^:]+(?=:)")
_BY_TYPE = {_VERSION.sub(r"\1", token): thing for thing, tokens in _THINGS.items() for token in tokens}
"""Things by their types, of Kubernetes whatever the version of the API."""
_MOUNTS = tuple(token for token in _THINGS["volume"] if re.search("(?i)mountTarget|nas/(access|protocol)", token))
"""Types of resources through which files are reached."""
_STORES = tuple(
    token
    for token in _THINGS["volume"]
    if token not in _MOUNTS and not token.startswith("kubernetes:") and not token.endswith("Object")
)
"""Types of resources that hold the files of volumes."""
_SHORTEST_IDENTIFIER = 6
"""Characters: anything shorter may occur in a volume by chance."""
THINGS = tuple(_THINGS)
"""Kinds of things with something at stake, the largest first."""
_CONSEQUENCES = {
    "cluster": "everything that runs in it stops",
    "node pool": "its nodes go without being drained, and every pod there ends",
    "volume": "its files may be lost",
    "network": "nodes and pods that use it lose their connections",
    "job": "it stops",
    "service": "clients get no answers from it any more",
    "queue": "jobs that wait in it do not start any more",
    "namespace": "everything in it is deleted with it",
    "database": "its data is deleted",
    "key": "nobody can read any more what was encrypted with it",
    "log store": "its lines are deleted",
    "image repository": "its images are deleted, and pods that need them do not start any more",
    "release": "everything that it installed is deleted",
    "add-on": "nodes lose what it gives them, such as mounts, networks or GPUs",
    "definition": "every object of this kind is deleted with it",
}


_CLAIMS = "and the claims of those pods are deleted"
_REPLACED = {
    "job": "it stops and starts again, from its latest checkpoint if it has one",
    "service": "clients get no answers from it until its replacement is ready",
    "queue": "jobs that wait in it wait until it is there again",
}
"""Consequences of a replacement that are not those of a deletion."""


@dataclass(frozen=True, kw_only=True)
class Stake:
    """A change with something at stake."""

    change: Change
    thing: str
    """One of THINGS."""
    consequence: str
    verb: str
    """What happens to it."""

    @property
    def is_certain(self) -> bool:
        """Whether something is lost whatever runs there now: it, data of it, or the pods that answer its clients."""
        return self.verb in {"deleted", "replaced", "changes"} or _CLAIMS in self.consequence


def stakes(changes: Sequence[Change]) -> list[Stake]:
    """Return the changes with something at stake, the largest first."""
    lost = [change for change in changes if change.type in _STORES and change.kind in {"deleted", "replaced"}]
    listed = [stake for change in changes if (stake := _stake(change, lost))]
    return sorted(listed, key=lambda stake: (THINGS.index(stake.thing), stake.change.kind, stake.change.urn))


def _stake(change: Change, lost: Sequence[Change]) -> Stake | None:
    thing = _BY_TYPE.get(_VERSION.sub(r"\1", change.type))
    if thing is None:
        return None
    if change.kind in {"deleted", "replaced"}:
        consequence = _special(change, thing, lost) or _CONSEQUENCES[thing]
        claims = _with_claims(change.before, "whenDeleted")
        return Stake(change=change, thing=thing, consequence=f"{consequence}{claims}", verb=change.kind)
    consequence, verb = _in_place(change, thing) if change.kind == "changed" else ("", "")
    return Stake(change=change, thing=thing, consequence=consequence, verb=verb) if consequence else None


def _in_place(change: Change, thing: str) -> tuple[str, str]:
    """Return the cost of a change that neither deletes nor replaces a thing, empty if there is none, and a verb."""
    if thing == "node pool":
        return _shrinks(change), "shrinks"
    if thing == "job":
        return ("its pods end until it is resumed" if _is_suspended(change) else ""), "is suspended"
    return _of_service(change) if thing == "service" else ("", "")


def _of_service(change: Change) -> tuple[str, str]:
    before, after = (at(inputs, "spec", "replicas") for inputs in (change.before, change.after))
    if before != 0 and as_count(after) == 0:
        return (
            f"{_CONSEQUENCES['service']}: it has no replicas left{_with_claims(change.after, 'whenScaled')}",
            "shrinks",
        )
    if (as_count(after) or 0) < (as_count(before) or 0) and (claims := _with_claims(change.after, "whenScaled")):
        return f"it shrinks from {before} to {after} replicas{claims}", "shrinks"
    if change.type.endswith(":Service") and any(each.path.startswith("spec.selector") for each in change.differences):
        return "clients get their answers from other pods, or none", "changes"
    return "", ""


def _with_claims(inputs: Mapping[str, object], when: str) -> str:
    """Return words for the claims that a StatefulSet deletes with its pods; empty if it keeps them."""
    policy = as_text(at(inputs, "spec", "persistentVolumeClaimRetentionPolicy", when))
    return f", {_CLAIMS} ({when}: Delete)" if policy == "Delete" else ""


def _is_suspended(change: Change) -> bool:
    if change.type.endswith(":CronJob"):  # what runs goes on
        return False
    before, after = (
        at(inputs, "spec", "suspend") or at(inputs, "spec", "runPolicy", "suspend")
        for inputs in (change.before, change.after)
    )
    return after is True and before is not True


def _special(change: Change, thing: str, lost: Sequence[Change]) -> str:
    if change.kind == "replaced" and thing in _REPLACED:
        return _REPLACED[thing]
    if change.type in _MOUNTS:
        return "what is mounted by it hangs; its files stay"
    if change.type.endswith(":PersistentVolume") and (store := _store_of(change, lost)):
        return f"its files go with {store.name}, which is {store.kind}, too"
    if change.type.endswith(":PersistentVolumeClaim"):
        return "what happens to its files is up to its volume's reclaim policy"
    policy = as_text(at(change.before, "spec", "persistentVolumeReclaimPolicy"))
    return "its files stay where they are (reclaim policy Retain)" if policy == "Retain" else ""


def _store_of(volume: Change, lost: Sequence[Change]) -> Change | None:
    """Return the file system, bucket or disk that a volume is on, if it is lost."""
    names_it = json.dumps(at(volume.before, "spec"))
    return next((store for store in lost if any(name in names_it for name in _identifiers(store))), None)


def _identifiers(store: Change) -> list[str]:
    """Return its identifiers in volumes: its id, which begins the domains of its mount targets, or its name."""
    state = store.old
    named = [at(state.outputs, "id"), at(state.outputs, "bucket"), at(state.inputs, "bucket")] if state else []
    return [name for name in map(as_text, named) if len(name) >= _SHORTEST_IDENTIFIER]


def _shrinks(change: Change) -> str:
    before, after = pool_of(change.before), pool_of(change.after)
    if before is None or after is None or after.most >= before.most:
        return ""
    return (
        f"it shrinks from at most {before.most} to {after.most} nodes; nodes beyond that go without being drained, and"
        " pods there end"
    )
