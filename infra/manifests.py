"""Turns plain Kubernetes manifests (the results of the pure builders) into Pulumi resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


_PODS = ("Alertmanager", "DaemonSet", "Deployment", "Job", "Prometheus", "StatefulSet")
"""Kinds that create pods, which mount and use the other objects of their component."""


def declare_part(
    manifests: Mapping[str, Manifest],
    declare: Callable[[str, Manifest, Sequence[pulumi.Resource]], pulumi.Resource],
    before: Sequence[pulumi.Resource],
) -> tuple[list[pulumi.Resource], list[pulumi.Resource]]:
    """Declare the objects of a part, which all wait for `before`.

    Args:
        manifests: By logical name.
        declare: Takes logical name, manifest and what it waits for.
        before: What the part needs.

    Returns:
        What its pods wait for in addition (all of its objects but Services, which wait for the pods), and what creates
        the pods.
    """
    used = [
        declare(name, manifest, before)
        for name, manifest in manifests.items()
        if manifest["kind"] not in (*_PODS, "Service")
    ]
    pods: list[pulumi.Resource] = []
    for name, manifest in manifests.items():
        if manifest["kind"] in _PODS:
            pods.append(declare(name, manifest, [*before, *used]))
        elif manifest["kind"] == "Service":
            declare(name, manifest, before)
    return used, pods


@dataclass(frozen=True, kw_only=True)
class FixedFields:
    """Fields that Kubernetes never changes on existing objects of a kind."""

    fixed: Sequence[str]
    """Top-level fields whose change needs another object."""
    constant: str
    """A top-level field whose value never changes, in the program either."""


def replaceable_resource(
    logical_name: str, manifest: Manifest, fields: FixedFields, opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Declare a manifest with fields that the API server never changes: the object is deleted and created again.

    In a preview the provider asks the API server for a dry run of what it is going to create. For an object that keeps
    its name that would be a change of the one that still exists, and refused ("updates to reclaimPolicy are
    forbidden"), though the update deletes it first. What the provider does not know whole it does not try: hence a
    constant that no preview knows, and whose change counts for nothing unless something else replaces the object. (It
    is a whole top-level field because the engine, ignoring a part of one, forgets what the program said.)
    """
    constant = manifest[fields.constant]
    untried = pulumi.Output.from_input(pulumi.UNKNOWN if pulumi.runtime.is_dry_run() else constant)
    replaced = pulumi.ResourceOptions(
        replace_on_changes=list(fields.fixed),
        # The new one has the same name.
        delete_before_replace=True,
        ignore_changes=[fields.constant],
    )
    return resource(logical_name, {**manifest, fields.constant: untried}, pulumi.ResourceOptions.merge(opts, replaced))
