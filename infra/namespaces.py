"""Namespaces: their owner, Pod Security level and default-deny network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from infra.manifests import Manifest

PodSecurity = Literal["privileged", "baseline", "restricted"]

VOLCANO_NAMESPACE = "volcano-system"
MONITORING_NAMESPACE = "monitoring"
NODE_MONITORING_NAMESPACE = "monitoring-nodes"
GPU_NAMESPACE = "gpu-system"
CLEAN_UP_NAMESPACE = "job-cleanup-system"
GATEWAY_NAMESPACE = "gateway-system"
_OWNERS = {
    "default": "Kubernetes",
    **dict.fromkeys(
        (
            VOLCANO_NAMESPACE,
            MONITORING_NAMESPACE,
            NODE_MONITORING_NAMESPACE,
            GPU_NAMESPACE,
            CLEAN_UP_NAMESPACE,
            GATEWAY_NAMESPACE,
        ),
        "the platform's own components",
    ),
    "arms-prom": "ACK",
}
_OWNERS_OF_PREFIXES = {"kube-": "Kubernetes", "ack-": "ACK"}


def owner_of(namespace: str) -> str | None:
    """Return to whom a namespace belongs that workloads can have no part in; None if it is free.

    Kubernetes keeps names with kube- for itself (its documentation, "Namespaces"); ACK puts its add-ons into those with
    ack- and into arms-prom.
    """
    of_prefix = (owner for prefix, owner in _OWNERS_OF_PREFIXES.items() if namespace.startswith(prefix))
    return _OWNERS.get(namespace) or next(of_prefix, None)


def namespace_manifest(name: str, level: PodSecurity = "restricted") -> Manifest:
    """Return a Namespace that enforces a Pod Security level of the Kubernetes Pod Security Standards."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/warn": level,
                "app.kubernetes.io/managed-by": "athanor",
            },
        },
    }


def default_deny_manifest(namespace: str) -> Manifest:
    """Return the policy that closes a namespace to everything except DNS look-ups; workloads open their own ports."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "default-deny", "namespace": namespace},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "egress": [
                {
                    "to": [
                        {
                            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                        }
                    ],
                    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
                }
            ],
        },
    }
