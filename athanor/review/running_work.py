"""Running workloads of a cluster, and those that a change would stop: from one `kubectl get`, in a bounded time."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.review.capacity import pool_of
from athanor.review.changes import physical_name
from athanor.review.tolerant import as_count, as_list, as_mapping, as_text, at
from infra.node_labels import POOL_LABEL
from infra.workload_labels import JOB_LABEL, SERVICE_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from athanor.review.stakes import Stake

_JOB_LABELS = (
    JOB_LABEL, "volcano.sh/job-name", "training.kubeflow.org/job-name", "batch.kubernetes.io/job-name", "job-name",
    "jobset.sigs.k8s.io/jobset-name", "ray.io/cluster",
)  # fmt: skip
"""Labels of a job's pods, with its name: ours, Volcano's, Kubeflow's and Kubernetes' own."""
_WITH_ITS_NODE = {"DaemonSet", "Node"}
"""Owners of pods that belong to a node and go with it."""
_UNSEEN = frozenset({
    "add-on", "database", "definition", "image repository", "key", "log store", "network", "release"
})  # fmt: skip
_OF_OTHERS = ("kubernetes:kueue.", "kubernetes:serving.", "kubernetes:ray.io/v1:RayService")
"""Beginnings of types whose pods have labels that are not read here."""
_QUEUE_LABEL = "volcano.sh/queue-name"
_GPUS = "nvidia.com/gpu"
_QUESTION = ("get", "nodes,pods,persistentvolumeclaims", "--all-namespaces", "--output=json")


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod that has a node and has not ended."""

    namespace: str
    work: str
    """Workload that it is part of, such as `job digits-training`."""
    names: frozenset[str]
    """Names of the job that it is part of, logical and physical, and its own."""
    pool: str
    """Pool of its node; "" where the node has none."""
    gpus: int
    claims: frozenset[str]
    """Names of the claims that it mounts."""
    queue: str = ""
    """Volcano's queue of its job."""
    controller: str = ""
    """Name of the Deployment or StatefulSet that it belongs to."""

    def is_part_of(self, stake: Stake, namespace: str, name: str) -> bool:
        """Whether it goes with the change of an object that has this name in the cluster."""
        match stake.thing:
            case "cluster":
                return True
            case "namespace":
                return self.namespace == name
            case "job":
                return name in self.names and namespace in {"", self.namespace}
            case "service":  # a Service or a route has no pods of its own
                own = stake.change.type.startswith("kubernetes:apps/")
                return own and (self.namespace, self.controller) == (namespace, name)
            case "queue":
                return self.queue == name
            case _:
                return False


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job, a service or another owner of running pods."""

    name: str
    namespace: str
    pods: int
    gpus: int


@dataclass(frozen=True, kw_only=True)
class Running:
    """The running workloads of a cluster at one moment."""

    pods: tuple[Pod, ...]
    nodes: dict[str, int]
    """Number of nodes of each pool."""
    claims_of_volumes: dict[str, tuple[str, str]]
    """Namespace and name of the claim that is bound to a volume, by the volume's name."""

    def stopped_by(self, stake: Stake) -> list[Work] | None:
        """Return the work that a change stops; None where the cluster's objects do not show it."""
        namespace, name = physical_name(stake.change)
        if stake.thing == "node pool":
            return self._in_pool(stake)
        if stake.thing == "volume":
            return self._mounting(stake, namespace, name)
        if stake.thing in _UNSEEN or stake.change.type.startswith(_OF_OTHERS):
            return None
        return _work([pod for pod in self.pods if pod.is_part_of(stake, namespace, name)])

    def _in_pool(self, stake: Stake) -> list[Work]:
        name = stake.change.name
        after = pool_of(stake.change.after)
        if stake.change.kind == "changed" and after and self.nodes.get(name, 0) <= after.most:
            return []
        return _work([pod for pod in self.pods if pod.pool == name])

    def _mounting(self, stake: Stake, namespace: str, name: str) -> list[Work] | None:
        if stake.change.type.endswith(":PersistentVolume"):
            if name not in self.claims_of_volumes:
                return []
            namespace, name = self.claims_of_volumes[name]
        elif not stake.change.type.endswith(":PersistentVolumeClaim"):
            return None
        return _work([pod for pod in self.pods if pod.namespace == namespace and name in pod.claims])


def ask(kubeconfig: Path | None, context: str | None, kubectl: str = "kubectl", timeout_seconds: float = 20) -> str:
    """Return a cluster's objects as JSON text.

    Raises:
        OSError: kubectl could not be started.
        subprocess.SubprocessError: it failed, or the cluster did not answer in time.
    """
    place = [
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
        *([f"--context={context}"] if context else []),
        f"--request-timeout={timeout_seconds:.0f}s",
    ]
    done = subprocess.run(
        [kubectl, *_QUESTION, *place],
        capture_output=True, text=True, check=True, timeout=timeout_seconds, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout


def running(objects: str) -> Running:
    """Return the running work from the output of `kubectl get nodes,pods,persistentvolumeclaims -A -o json`.

    Raises:
        ValueError: the text is not a list of Kubernetes objects.
    """
    listed = at(json.loads(objects), "items")
    if listed is None:
        raise ValueError("not a list of Kubernetes objects")
    items = [as_mapping(item) for item in as_list(listed)]
    pools = {_name(item): as_text(at(item, "metadata", "labels", POOL_LABEL)) for item in _of("Node", items)}
    claims = {
        as_text(at(item, "spec", "volumeName")): (as_text(at(item, "metadata", "namespace")), _name(item))
        for item in _of("PersistentVolumeClaim", items)
    }
    return Running(
        pods=tuple(_pod(item, pools) for item in _of("Pod", items) if _is_running(item)),
        nodes=dict(Counter(pools.values())),
        claims_of_volumes=claims,
    )


def _of(kind: str, items: list[dict[str, object]]) -> list[dict[str, object]]:
    return [item for item in items if item.get("kind") == kind]


def _name(item: object) -> str:
    return as_text(at(item, "metadata", "name"))


def _owners(item: object) -> list[tuple[str, str]]:
    owners = as_list(at(item, "metadata", "ownerReferences"))
    return [(as_text(at(owner, "kind")), as_text(at(owner, "name"))) for owner in owners]


def _is_running(item: object) -> bool:
    ended = as_text(at(item, "status", "phase")) in {"Succeeded", "Failed"}
    of_the_node = any(kind in _WITH_ITS_NODE for kind, _ in _owners(item))
    return bool(at(item, "spec", "nodeName")) and not ended and not of_the_node


def _pod(item: object, pools: dict[str, str]) -> Pod:
    labels = as_mapping(at(item, "metadata", "labels"))
    containers = as_list(at(item, "spec", "containers"))
    claims = [at(volume, "persistentVolumeClaim", "claimName") for volume in as_list(at(item, "spec", "volumes"))]
    return Pod(
        namespace=as_text(at(item, "metadata", "namespace")),
        work=_work_name(item, labels),
        names=frozenset({_name(item), *(name for label in _JOB_LABELS if (name := as_text(labels.get(label))))}),
        pool=pools.get(as_text(at(item, "spec", "nodeName")), ""),
        gpus=sum(as_count(at(container, "resources", "requests", _GPUS)) or 0 for container in containers),
        claims=frozenset(as_text(claim) for claim in claims if claim),
        queue=as_text(labels.get(_QUEUE_LABEL)),
        controller=_controller(item, labels),
    )


def _controller(item: object, labels: dict[str, object]) -> str:
    """Return the Deployment's or StatefulSet's name: a ReplicaSet has that of its Deployment, followed by a hash."""
    for kind, name in _owners(item):
        if kind == "ReplicaSet":
            return name.removesuffix(f"-{as_text(labels.get('pod-template-hash'))}")
        if kind == "StatefulSet":
            return name
    return ""


def _work_name(item: object, labels: dict[str, object]) -> str:
    if service := as_text(labels.get(SERVICE_LABEL)):
        return f"service {service}"
    job = next((name for label in _JOB_LABELS if (name := as_text(labels.get(label)))), "")
    if job:
        return f"job {job}"
    owner = next(iter(_owners(item)), None)
    return f"{owner[0]} {owner[1]}" if owner else f"pod {_name(item)}"


def _work(pods: Sequence[Pod]) -> list[Work]:
    pods_by_work: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        pods_by_work.setdefault((pod.namespace, pod.work), []).append(pod)
    return [
        Work(name=name, namespace=namespace, pods=len(members), gpus=sum(pod.gpus for pod in members))
        for (namespace, name), members in sorted(pods_by_work.items())
    ]
