"""The workloads' namespace: closed to all traffic that no workload opens, and its name fixed while it is in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.create_only import CreateOnly, guard
from infra.manifests import resource
from infra.namespaces import default_deny_manifest, namespace_manifest

if TYPE_CHECKING:
    from infra.namespaces import PodSecurity


@dataclass(frozen=True, kw_only=True)
class WorkloadNamespaceArgs:
    """Arguments of WorkloadNamespace."""

    name: str
    """Name in the cluster."""
    pod_security: PodSecurity
    may_leave: str | None = None
    """Former name whose namespace may be deleted."""


def fixed_name(may_leave: str | None) -> CreateOnly:
    """Return the guard that refuses a rename, unless it is from this name."""
    return CreateOnly(
        input="name",
        setting="athanor:namespace",
        limit="a rename deletes that namespace with everything in it: jobs, services and claims, also those of other"
        " stacks, and the files of every claim whose StorageClass deletes them",
        fix="restore it or, if nothing in it is needed any more, set athanor:leave_namespace to it",
        # Stacks of earlier releases do not tell theirs.
        forbids=lambda old, new: old not in {None, new, may_leave},
    )


class WorkloadNamespace(pulumi.ComponentResource):
    """The namespace of the workloads and the network policy that closes it."""

    namespace: pulumi.CustomResource

    def __init__(self, name: str, args: WorkloadNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        # A component is registered before its children: the engine asks the guard before any of them is replaced.
        own = pulumi.ResourceOptions(hooks=guard(f"{name}-fixed-name", [fixed_name(args.may_leave)]))
        super().__init__(
            "athanor:infra:WorkloadNamespace", name, {"name": args.name}, pulumi.ResourceOptions.merge(opts, own)
        )
        # Once they had no component.
        child = pulumi.ResourceOptions(parent=self, aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)])
        self.namespace = resource("workload-namespace", namespace_manifest(args.name, args.pod_security), child)
        after = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[self.namespace]))
        resource("workload-default-deny", default_deny_manifest(args.name), after)
        self.register_outputs({})
