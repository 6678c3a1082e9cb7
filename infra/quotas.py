"""Resource limits of the workloads' namespace: defaults for each container, and a quota for all pods together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.errors import RefusalError
from infra.manifests import Manifest, resource
from infra.pool_resources import as_quantities, fraction_of, pool_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.offers import PoolOffer
    from infra.settings.scheduling import ContainerDefaults, QuotaSettings, SchedulingSettings

_DEFAULT_PERCENT = 200
"""Pods that wait count too: with no more than what the pools hold, a job of a high priority could not even wait while
jobs that it would preempt use them all."""
_OBJECTS = {"configmaps": "5000", "secrets": "5000", "services": "5000"}
"""Far beyond the two of each job, of which a program in a loop could store any number, 1 MiB each, in the cluster's
database. No kind that a definition adds: Kubernetes takes half a minute to count those, and refuses them until then."""
_REQUESTED = ("cpu", "memory", "ephemeral-storage")


def quota_limits(settings: QuotaSettings, pools: Sequence[PoolOffer], *, all_nodes_known: bool) -> dict[str, str]:
    """Return the hard limits of the namespace's ResourceQuota by their names there; empty for none.

    Args:
        settings: Percentage and explicit limits.
        pools: The platform's node pools, those of role `system` too: services may run there.
        all_nodes_known: Whether the cluster has no other nodes. If it has, a share is derived only when asked for.

    Raises:
        RefusalError: a percentage where the platform does not know what its nodes hold.
    """
    if not settings.enabled:
        return {}
    percent = settings.percent
    known = bool(pools) and all(pool.instance_types for pool in pools)
    if percent and not known:
        limit = "the platform does not know the resources of all its nodes"
        raise RefusalError("athanor:scheduling.quota.percent", percent, limit, "set quota.resources by resource name")
    if percent is None and all_nodes_known and known:
        percent = _DEFAULT_PERCENT
    most = pool_amounts(pools, "most") if percent else {}
    derived = as_quantities(fraction_of(most, most, percent or 0, 100))
    return {_quota_name(name): amount for name, amount in sorted({**derived, **settings.resources}.items())}


def _quota_name(resource: str) -> str:
    """Return the name that a ResourceQuota has for what pods request; other names of its own stay as they are."""
    extended = "/" in resource and not resource.startswith(("count/", "requests."))
    return f"requests.{resource}" if extended or resource in _REQUESTED else resource


def object_limits(settings: QuotaSettings) -> dict[str, str]:
    """Return how many objects of a kind the namespace may hold, unless the settings say it; empty for any number."""
    if not settings.enabled:
        return {}
    said = {name.removeprefix("count/") for name in settings.resources}
    return {name: number for name, number in _OBJECTS.items() if name not in said}


def quota_manifest(namespace: str, limits: Mapping[str, str], name: str = "workloads") -> Manifest:
    """Return a ResourceQuota of a namespace: it counts every pod that has not ended, a waiting one too."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": dict(limits)},
    }


def limit_range_manifest(namespace: str, defaults: ContainerDefaults) -> Manifest:
    """Return the LimitRange of a namespace: what a container gets that asks for nothing, and no bounds for others."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "workloads", "namespace": namespace},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    # Without a request of its own, a disk's would be as large as the limit, and few pods fit a node.
                    "defaultRequest": {"cpu": defaults.cpu, "memory": defaults.memory, "ephemeral-storage": "0"},
                    "default": {"memory": defaults.memory, "ephemeral-storage": defaults.ephemeral_storage},
                }
            ]
        },
    }


@dataclass(frozen=True, kw_only=True)
class WorkloadLimitsArgs:
    """Arguments of WorkloadLimits."""

    namespace: str
    settings: SchedulingSettings
    pools: Sequence[PoolOffer] = ()
    """Node pools that the quota is a share of."""
    all_nodes_known: bool = False
    """Whether the cluster has no other nodes."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies: the namespace."""


class WorkloadLimits(pulumi.ComponentResource):
    """The LimitRange of the workloads' namespace, and its ResourceQuotas: of resources, where known, and of objects."""

    parts: tuple[pulumi.Resource, ...]
    """Objects that must exist before the first pod, and before what the quotas count."""

    def __init__(self, name: str, args: WorkloadLimitsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:WorkloadLimits", name, None, opts)
        quota = quota_limits(args.settings.quota, args.pools, all_nodes_known=args.all_nodes_known)
        objects = object_limits(args.settings.quota)
        children = pulumi.ResourceOptions(parent=self, depends_on=args.depends_on)
        manifests = {
            "container-defaults": limit_range_manifest(args.namespace, args.settings.container_defaults),
            **({"workload-quota": quota_manifest(args.namespace, quota)} if quota else {}),
            # Apart: the quota of resources is there already in stacks of earlier releases.
            **({"object-quota": quota_manifest(args.namespace, objects, "objects")} if objects else {}),
        }
        self.parts = tuple(resource(child, manifest, children) for child, manifest in manifests.items())
        self.register_outputs({"quota": quota})
