"""Skeletons of workload controllers: Deployments, DaemonSets, StatefulSets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.manifests import Manifest

ONE_AT_MOST: Manifest = {"replicas": 1, "strategy": {"type": "Recreate"}}
"""Strategy of a Deployment: a single pod, and never two at once during an update."""
MANY_NODES_AT_ONCE: Manifest = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}}
"""Strategy of a DaemonSet whose pods may be absent briefly: a thousand nodes are updated quickly."""


@dataclass(frozen=True, kw_only=True)
class PodTemplate:
    """The pods of a Deployment, DaemonSet or StatefulSet."""

    selector: Mapping[str, str]
    """Labels that all of them and no other pod carry; never changed on an object that exists."""
    labels: Mapping[str, str]
    """All labels of the pods, those of the selector included."""
    spec: Manifest
    annotations: Mapping[str, str] | None = None

    def fields(self) -> Manifest:
        """Return the fields `selector` and `template`."""
        about: dict[str, Any] = {"labels": dict(self.labels)}
        if self.annotations:
            about["annotations"] = dict(self.annotations)
        return {"selector": {"matchLabels": dict(self.selector)}, "template": {"metadata": about, "spec": self.spec}}


def deployment_manifest(metadata: Manifest, pods: PodTemplate, more: Manifest) -> Manifest:
    """Return a Deployment. `more`: further fields of its spec, such as ONE_AT_MOST."""
    return _apps_manifest("Deployment", metadata, pods, more)


def daemon_set_manifest(metadata: Manifest, pods: PodTemplate, more: Manifest | None = None) -> Manifest:
    """Return a DaemonSet that `up` does not wait for. `more`: further fields of its spec.

    One node of a thousand that is not well must not hold up an update, and where its nodes come later there is nothing
    to wait for yet.
    """
    annotations = {**metadata.get("annotations", {}), "pulumi.com/skipAwait": "true"}
    return _apps_manifest("DaemonSet", {**metadata, "annotations": annotations}, pods, more or {})


def stateful_set_manifest(metadata: Manifest, pods: PodTemplate, more: Manifest) -> Manifest:
    """Return a StatefulSet. `more`: further fields of its spec, such as serviceName."""
    return _apps_manifest("StatefulSet", metadata, pods, more)


def _apps_manifest(kind: str, metadata: Manifest, pods: PodTemplate, more: Manifest) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {**more, **pods.fields()}}
