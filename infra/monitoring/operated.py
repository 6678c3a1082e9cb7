"""The common part of Prometheus and Alertmanager: custom resources whose pods the operator creates.

Source: prometheus-operator 0.93, Documentation/api-reference/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.images import CONFIG_RELOADER_IMAGE
from infra.kubernetes.pods import container_security, pod_security, resources
from infra.monitoring import INSTANCE, NAMESPACE, WEB_PORT_NAME
from infra.monitoring.parts import NOBODY, labels, metadata, service

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.monitoring.disks import InstanceDisk


@dataclass(frozen=True, kw_only=True)
class Operated:
    """One of the two."""

    kind: str
    part: str
    """Name of the part, its account, Service and container."""
    version: str
    image: str
    port: int

    @property
    def url(self) -> str:
        """Its address inside the cluster."""
        return f"http://{self.part}.{NAMESPACE}.svc:{self.port}"

    @property
    def selector(self) -> dict[str, str]:
        """Labels that the operator gives its pods."""
        return {"app.kubernetes.io/name": self.part, "app.kubernetes.io/instance": INSTANCE}

    def service(self) -> Manifest:
        """Return its Service."""
        return service(self.part, WEB_PORT_NAME, self.port, self.selector)

    def manifest(self, replicas: int, disk: InstanceDisk, container_resources: Manifest, more: Manifest) -> Manifest:
        """Return the custom resource. `more`: what its kind alone has in its spec."""
        return {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": self.kind,
            "metadata": metadata(INSTANCE, part=self.part),
            "spec": {
                "version": f"v{self.version}",
                "replicas": replicas,
                "podMetadata": {"labels": labels(self.part)},
                "serviceAccountName": self.part,
                "initContainers": [_container("init-config-reloader", CONFIG_RELOADER_IMAGE, _RELOADER)],
                "containers": [
                    _container(self.part, self.image, container_resources),
                    _container("config-reloader", CONFIG_RELOADER_IMAGE, _RELOADER),
                ],
                "externalUrl": self.url,
                "storage": disk.storage,
                "securityContext": pod_security(NOBODY),
                "affinity": _apart(self.selector),
                **more,
            },
        }


_RELOADER = resources("10m", "16Mi", "64Mi")
"""Resources of the container that writes the configuration before the start, and of the one that watches it."""


def _container(name: str, image: str, requests: Manifest) -> Manifest:
    """Return our settings of a container that the operator creates.

    Images are said by container, as in any pod: there the registry setting finds them. So are limits and rights: what
    the operator sets by itself may change with its version.
    """
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": requests,
        "securityContext": container_security(),
    }


def _apart(selector: dict[str, str]) -> Manifest:
    """Return the affinity of copies that go to nodes of their own where there are enough."""
    term = {"labelSelector": {"matchLabels": selector}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }
