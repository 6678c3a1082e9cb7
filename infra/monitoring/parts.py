"""The common part of the monitoring's components: labels, accounts, security and network policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.kubernetes import parts
from infra.kubernetes.access import role_manifests, service_account_manifest
from infra.kubernetes.controllers import ONE_AT_MOST, PodTemplate, deployment_manifest
from infra.kubernetes.parts import labels, part_metadata
from infra.kubernetes.pods import pod_security
from infra.monitoring import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

NOBODY = 65534
"""The user that upstream's images of most parts run as, too."""


def metadata(name: str, namespace: str | None = NAMESPACE, *, part: str | None = None) -> Manifest:
    """Return an object's metadata. `namespace` None: the whole cluster's; `part`: whose it is, if not of `name`."""
    return part_metadata(name, namespace, part)


def account(name: str, namespace: str = NAMESPACE) -> Manifest:
    """Return a ServiceAccount whose token only the pods that say so get."""
    return service_account_manifest(metadata(name, namespace))


def grant(name: str, rules: Sequence[Manifest], namespace: str | None = None) -> dict[str, Manifest]:
    """Return a role and its binding to the account `name`, by kind. `namespace`: where it holds; None: everywhere."""
    return role_manifests(metadata(name, namespace), rules, (name, NAMESPACE))


def service(name: str, port_name: str, port: int, selector: dict[str, str] | None = None) -> Manifest:
    """Return the Service of a part, inside the cluster only."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {
            "selector": selector or {"app.kubernetes.io/name": name},
            "ports": [{"name": port_name, "port": port, "targetPort": port_name}],
        },
    }


def deployment(name: str, pod: Manifest, annotations: dict[str, str] | None = None) -> Manifest:
    """Return a Deployment of one pod; `annotations`: of the pod, which is replaced when they change."""
    pods = PodTemplate(
        selector={"app.kubernetes.io/name": name}, labels=labels(name), annotations=annotations, spec=pod
    )
    return deployment_manifest(metadata(name), pods, ONE_AT_MOST)


def api_client_pod(name: str, container: Manifest) -> Manifest:
    """Return the spec of a pod of one container that asks the API server with the rights of the account `name`."""
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(NOBODY),
        "containers": [container],
    }


def callers(*names: str, namespace: str = NAMESPACE) -> Manifest:
    """Return the peer of a network policy that is the pods of these parts."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {
            "matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": list(names)}]
        },
    }


def network_policy(name: str, ingress: Mapping[int, Sequence[Manifest]], egress: Sequence[Manifest]) -> Manifest:
    """Return the policy of the pods of a part; see `infra.kubernetes.parts.network_policy`."""
    return parts.network_policy(metadata(name), {"app.kubernetes.io/name": name}, ingress, egress)
