"""Turn plain Kubernetes manifests (what the pure builders return) into Pulumi resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable

Manifest = dict[str, Any]
"""A Kubernetes object in the API's own shape: camelCase keys, `apiVersion`, `kind`, `metadata`."""

_TYPED: dict[tuple[str, str], Callable[..., pulumi.CustomResource]] = {
    ("v1", "ConfigMap"): kubernetes.core.v1.ConfigMap,
    ("v1", "Namespace"): kubernetes.core.v1.Namespace,
    ("v1", "PersistentVolume"): kubernetes.core.v1.PersistentVolume,
    ("v1", "PersistentVolumeClaim"): kubernetes.core.v1.PersistentVolumeClaim,
    ("v1", "Service"): kubernetes.core.v1.Service,
    ("v1", "ServiceAccount"): kubernetes.core.v1.ServiceAccount,
    ("apps/v1", "DaemonSet"): kubernetes.apps.v1.DaemonSet,
    ("apps/v1", "Deployment"): kubernetes.apps.v1.Deployment,
    ("networking.k8s.io/v1", "NetworkPolicy"): kubernetes.networking.v1.NetworkPolicy,
    ("policy/v1", "PodDisruptionBudget"): kubernetes.policy.v1.PodDisruptionBudget,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): kubernetes.rbac.v1.ClusterRole,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): kubernetes.rbac.v1.ClusterRoleBinding,
    ("storage.k8s.io/v1", "StorageClass"): kubernetes.storage.v1.StorageClass,
}


def resource(logical_name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Declare one manifest as a resource: the typed class for the kinds we know, CustomResource for the rest.

    Values anywhere inside the manifest may be Outputs; `apiVersion` and `kind` are plain.
    """
    kind = (manifest["apiVersion"], manifest["kind"])
    fields = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    if "status" in fields:
        # Only a simulated node brings its status along; the SDK's classes know `status` as an output alone.
        token = f"kubernetes:{'core/' if '/' not in kind[0] else ''}{kind[0]}:{kind[1]}"
        return pulumi.CustomResource(token, logical_name, manifest, opts)
    typed = _TYPED.get(kind)
    if typed is None:
        return kubernetes.apiextensions.CustomResource(
            logical_name, api_version=kind[0], kind=kind[1], opts=opts, **fields
        )
    return typed(logical_name, opts=opts, **{_snake(key): value for key, value in fields.items()})


def resource_from_output(
    logical_name: str, kind: tuple[str, str], manifest: pulumi.Output[Manifest], opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Declare a manifest that depends on Outputs: only (apiVersion, kind) must be plain."""
    parts = {"apiVersion": kind[0], "kind": kind[1], "metadata": manifest["metadata"], "spec": manifest["spec"]}
    return resource(logical_name, parts, opts)


def _snake(key: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in key)
