"""A resource as a rule sees it, and the pod templates inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.registry import CONTAINERS
from policies.values import Unknown, Value, each, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator

_KUBERNETES = "kubernetes:"
_WITHOUT_PODS = frozenset({"ConfigMap", "CustomResourceDefinition", "Secret"})
_AROUND_PODS = frozenset({"jobTemplate", "spec", "tasks", "template"})
_OF_PODS = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}
)


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource of a stack, as the program declares it."""

    type: str
    """Type token, such as alicloud:cs/nodePool:NodePool or kubernetes:apps/v1:Deployment."""
    name: str
    """Logical name."""
    properties: Value = field(default_factory=dict[str, "Value"])
    """Inputs; `Unknown` if the engine has not shown any."""
    urn: str = ""
    protect: bool = False
    """Whether the engine refuses to delete it."""

    @property
    def kind(self) -> str:
        """Kind of a Kubernetes object, empty for anything else; a patch is of the kind that it patches."""
        if not self.type.startswith(_KUBERNETES):
            return ""
        return self.type.rpartition(":")[2].removesuffix("Patch")

    @property
    def namespace(self) -> Value:
        """Namespace of a Kubernetes object."""
        given = read(self.properties, "metadata", "namespace")
        return "default" if given is None else given

    @property
    def object_name(self) -> str:
        """Name of a Kubernetes object; the logical one where it has none of its own yet, and of anything else."""
        return label(read(self.properties, "metadata", "name"), self.name) if self.kind else self.name

    @property
    def identity(self) -> str:
        """Its name in exemptions: `DaemonSet gpu-system/dcgm-exporter`, `Namespace gpu-system`, `NodePool a10`."""
        kind = self.kind or self.type.rpartition(":")[2]
        given = read(self.properties, "metadata", "namespace") if self.kind else None
        return f"{kind} {given}/{self.object_name}" if isinstance(given, str) else f"{kind} {self.object_name}"


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container of a pod, of whatever sort."""

    name: str
    value: Value
    pod: Value
    """The pod's spec."""

    def setting(self, key: str) -> Value:
        """Return a key of the security context: the container's own, else the pod's."""
        own = read(self.value, "securityContext", key)
        return read(self.pod, "securityContext", key) if own is None else own


def pods(resource: Resource) -> list[Value]:
    """Return the specs of all pods that a Kubernetes object describes; an unknown one is `Unknown`."""
    if not resource.kind or resource.kind in _WITHOUT_PODS:
        return []
    return list(_pods(resource.properties, of_pods=resource.kind in _OF_PODS))


def _pods(value: Value, *, of_pods: bool) -> Iterator[Value]:
    if isinstance(value, list):
        for item in value:
            yield from _pods(item, of_pods=of_pods)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("containers"), list | Unknown):
        yield value
        return
    for key, item in value.items():
        if isinstance(item, Unknown) and of_pods and key in _AROUND_PODS:
            yield item
        yield from _pods(item, of_pods=of_pods)


def containers(resource: Resource) -> Iterator[Container]:
    """Yield every container of every pod; an unknown pod counts as one unknown container."""
    for pod in pods(resource):
        keys = ("containers",) if isinstance(pod, Unknown) else CONTAINERS
        for key in keys:
            for value in each(read(pod, key)):
                yield Container(name=label(read(value, "name")), value=value, pod=pod)
