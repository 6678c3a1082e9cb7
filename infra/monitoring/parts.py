"""What the parts of the monitoring share: labels, accounts, security, and who may reach whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring import NAMESPACE, PART_OF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

_USER = 65534
"""`nobody`, whom upstream's images of all parts run as, too."""
READ = ("get", "list", "watch")


def labels(name: str) -> dict[str, str]:
    """Return the labels of a part."""
    return {"app.kubernetes.io/name": name, **PART_OF}


def metadata(name: str, namespace: str | None = NAMESPACE, *, part: str | None = None) -> Manifest:
    """Return an object's metadata. `namespace` None: the whole cluster's; `part`: whose it is, if not of `name`."""
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels(part or name)}


def pod_security(user: int = _USER) -> Manifest:
    """Return a pod's security context; the group lets it write to its volume."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        # Else every start would walk through all files of the volume first.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """Return the security context of a container that needs no right at all."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def resources(cpu: str, memory: str, limit: str) -> Manifest:
    """Return a container's resources: what it asks for, and the memory beyond which it is killed."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}


def account(name: str, namespace: str = NAMESPACE) -> Manifest:
    """Return a ServiceAccount whose token only the pods that say so get."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(name, namespace),
        "automountServiceAccountToken": False,
    }


def rule(groups: str, kinds: str, verbs: Sequence[str]) -> Manifest:
    """Return one rule of a role; several groups or kinds are separated by spaces, `core` is the group without name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": kinds.split(),
        "verbs": list(verbs),
    }


def grant(name: str, rules: Sequence[Manifest], namespace: str | None = None) -> dict[str, Manifest]:
    """Return a role and its binding to the account `name`, by kind. `namespace`: where it holds; None: everywhere."""
    kind = "Role" if namespace else "ClusterRole"
    about = metadata(name, namespace)
    return {
        kind: {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": about,
            "rules": list(rules),
        },
        f"{kind}Binding": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{kind}Binding",
            "metadata": about,
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        },
    }


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
    template_metadata: Manifest = {"labels": labels(name), **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": template_metadata, "spec": pod},
        },
    }


def api_client_pod(name: str, container: Manifest) -> Manifest:
    """Return the spec of a pod of one container that asks the API server with the rights of the account `name`."""
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
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
    """Return the policy of a part's pods.

    People come in by `kubectl port-forward`, through the kubelet of the pod's node, which no policy keeps out.

    Args:
        name: The part.
        ingress: Who may come in, by port.
        egress: Where it may go beside DNS; `{}` is anywhere, for what reads targets or the API server, whose addresses
            no policy can name.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name),
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": list(peers), "ports": [{"protocol": "TCP", "port": port}]} for port, peers in ingress.items()
            ],
            "egress": list(egress),
        },
    }
