"""Namespaces, their Pod Security level and their default-deny network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from infra.manifests import Manifest

PodSecurity = Literal["privileged", "baseline", "restricted"]


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
