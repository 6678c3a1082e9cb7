"""Gang scheduling, queues and priorities: Volcano installed as typed resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.images import VOLCANO_CONTROLLERS_IMAGE, VOLCANO_SCHEDULER_IMAGE
from infra.manifests import FixedFields, Manifest, replaceable_resource, resource
from infra.namespaces import namespace_manifest
from infra.priorities import FIXED_FIELDS, priority_class_manifest
from infra.queues import queue_limits, queue_manifest
from infra.topology import hyper_node_manifests
from infra.volcano import CONTROLLERS, NAMESPACE, SCHEDULER
from infra.volcano.configuration import scheduler_config_manifest, scheduler_config_text
from infra.volcano.crds import chart_folder, crd_manifests
from infra.volcano.deployments import controllers_manifest, scheduler_manifest
from infra.volcano.permissions import CONTROLLER_RULES, SCHEDULER_RULES, permission_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.offers import PoolOffer
    from infra.settings.scheduling import QueueSettings, SchedulingSettings


@dataclass(frozen=True, kw_only=True)
class GangSchedulingArgs:
    """Arguments of GangScheduling."""

    settings: SchedulingSettings
    namespace: str
    """Namespace of the workloads; names of PriorityClasses begin with it."""
    pools: Sequence[PoolOffer] = ()
    """Node pools whose GPUs the queues share and whose zones become HyperNodes."""
    nodes: Sequence[pulumi.Resource] = ()
    """Nodes for the pods of Volcano, where this program creates the nodes: they must outlive these pods."""


class GangScheduling(pulumi.ComponentResource):
    """Volcano with preempt and reclaim on, and the stack's queues, priorities and HyperNodes.

    Queues and HyperNodes depend on the controllers and these on the CRDs, so that a destroy drains in the reverse
    order: no object of a kind outlives the controller that has to finalize it.
    """

    ready: tuple[pulumi.Resource, ...]
    """Queues, PriorityClasses and HyperNodes; jobs depend on them."""
    namespace: tuple[pulumi.Resource, ...]
    """Volcano's namespace; empty where somebody else installed it."""

    def __init__(self, name: str, args: GangSchedulingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:GangScheduling", name, None, opts)
        self._nodes = args.nodes
        _warn_without_shares(args.settings.queues, args.pools, self)
        self.namespace = ()
        installed = self._install() if args.settings.install else []
        self.ready = (
            *self._queues(args.settings.queues, args.pools, installed),
            *self._priority_classes(args),
            *(self._hyper_nodes(args.pools, installed) if args.settings.install else ()),
        )
        self.register_outputs({"queues": [queue.name for queue in args.settings.queues]})

    def _queues(
        self, queues: Sequence[QueueSettings], pools: Sequence[PoolOffer], installed: list[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        return [
            self._child(f"queue-{queue.name}", queue_manifest(queue, limits), installed)
            for queue, limits in zip(queues, queue_limits(queues, pools), strict=True)
        ]

    def _priority_classes(self, args: GangSchedulingArgs) -> list[pulumi.Resource]:
        options = pulumi.ResourceOptions(parent=self)
        fields = FixedFields(fixed=FIXED_FIELDS, constant="globalDefault")
        return [
            replaceable_resource(
                f"priority-{priority.name}", priority_class_manifest(args.namespace, priority), fields, options
            )
            for priority in args.settings.priority_classes
        ]

    def _hyper_nodes(self, pools: Sequence[PoolOffer], installed: list[pulumi.Resource]) -> list[pulumi.Resource]:
        return [
            self._child(f"hyper-node-{name}", manifest, installed)
            for name, manifest in hyper_node_manifests(pools).items()
        ]

    def _install(self) -> list[pulumi.Resource]:
        settings = scheduler_config_text()
        crds: list[pulumi.Resource] = [
            self._child(f"crd-{name}", manifest) for name, manifest in crd_manifests(chart_folder()).items()
        ]
        # Its pods need no privilege at all.
        namespace = self._child("namespace", namespace_manifest(NAMESPACE))
        self.namespace = (namespace,)
        config = self._child("scheduler-config", scheduler_config_manifest(settings), [namespace])
        scheduler = self._part(
            SCHEDULER,
            SCHEDULER_RULES,
            scheduler_manifest(VOLCANO_SCHEDULER_IMAGE, settings),
            [*crds, namespace, config],
        )
        controllers = self._part(
            CONTROLLERS,
            CONTROLLER_RULES,
            controllers_manifest(VOLCANO_CONTROLLERS_IMAGE),
            [*crds, namespace],
        )
        return [*crds, scheduler, controllers]

    def _part(
        self, name: str, rules: list[Manifest], deployment: Manifest, depends_on: list[pulumi.Resource]
    ) -> pulumi.Resource:
        permissions = [
            self._child(f"{name}-{manifest['kind'].lower()}", manifest, depends_on)
            for manifest in permission_manifests(name, rules)
        ]
        return self._child(name, deployment, [*depends_on, *permissions, *self._nodes])

    def _child(
        self, name: str, manifest: Manifest, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.CustomResource:
        return resource(name, manifest, pulumi.ResourceOptions(parent=self, depends_on=depends_on))


def _warn_without_shares(
    queues: Sequence[QueueSettings], pools: Sequence[PoolOffer], component: pulumi.Resource
) -> None:
    if len(queues) > 1 and not pools and not any(queue.deserved for queue in queues):
        pulumi.log.warn(
            "scheduling.queues: the platform does not know its node pools, so `weight` has no total to divide, and no"
            " queue reclaims anything from another. Fix: set `deserved` by resource name for each queue.",
            component,
        )
