"""Turn plain Kubernetes manifests (what the pure builders return) into Pulumi resources."""

from __future__ import annotations

from typing import Any

import pulumi

Manifest = dict[str, Any]
"""A Kubernetes object in the API's own shape: camelCase keys, `apiVersion`, `kind`, `metadata`."""


def resource(logical_name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Declare one manifest as a resource of the Kubernetes provider.

    Values anywhere inside the manifest may be Outputs; `apiVersion` and `kind` are plain. The SDK's class of the kind
    would register the very same: loading these classes takes a second of every preview and update.
    """
    version, kind = manifest["apiVersion"], manifest["kind"]
    group_version = version if "/" in version else f"core/{version}"
    return pulumi.CustomResource(f"kubernetes:{group_version}:{kind}", logical_name, manifest, opts)


def resource_from_output(
    logical_name: str, kind: tuple[str, str], manifest: pulumi.Output[Manifest], opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Declare a manifest that depends on Outputs: only (apiVersion, kind) must be plain."""
    parts = {"apiVersion": kind[0], "kind": kind[1], "metadata": manifest["metadata"], "spec": manifest["spec"]}
    return resource(logical_name, parts, opts)
