"""Service accounts of pods and their rights: ServiceAccounts, and roles with their bindings.

Source: Kubernetes, "Using RBAC Authorization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest

READ = ("get", "list", "watch")
_RBAC = "rbac.authorization.k8s.io"


def service_account_manifest(metadata: Manifest) -> Manifest:
    """Return a ServiceAccount whose token only pods that ask for it get."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }


def rule(groups: str, kinds: str, verbs: Sequence[str]) -> Manifest:
    """Return one rule of a role; several groups or kinds are separated by spaces, `core` is the group without name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": kinds.split(),
        "verbs": list(verbs),
    }


def role_manifests(metadata: Manifest, rules: Sequence[Manifest], account: tuple[str, str]) -> dict[str, Manifest]:
    """Return a role and its binding, by kind.

    Args:
        metadata: Of both. With a namespace they are a Role and a RoleBinding, which hold there; without one a
            ClusterRole and a ClusterRoleBinding, which hold everywhere.
        rules: What the role allows.
        account: Name and namespace of the ServiceAccount that gets it.
    """
    kind = "Role" if "namespace" in metadata else "ClusterRole"
    name, namespace = account
    return {
        kind: {
            "apiVersion": f"{_RBAC}/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": list(rules),
        },
        f"{kind}Binding": {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]},
        },
    }
