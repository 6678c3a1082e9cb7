"""Gang scheduling, queues and priorities: Volcano installed as typed resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra import volcano
from infra.images import VOLCANO_CONTROLLERS_IMAGE, VOLCANO_SCHEDULER_IMAGE
from infra.manifests import Manifest, resource
from infra.namespaces import namespace_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.scheduling import SchedulingSettings


@dataclass(frozen=True, kw_only=True)
class GangSchedulingArgs:
    """Arguments of GangScheduling."""

    settings: SchedulingSettings
    nodes_scale: bool = False
    """Whether an autoscaler adds nodes for pods that wait."""
    nodes: Sequence[pulumi.Resource] = ()
    """What the pods of Volcano run on, where this program makes the nodes: they must outlive these pods."""


class GangScheduling(pulumi.ComponentResource):
    """Volcano with preempt and reclaim on, and the stack's queues.

    The queues depend on the controllers and these on the CRDs, so that a destroy drains in the reverse order: no object
    of a kind outlives the controller that has to finalize it.
    """

    queues: tuple[pulumi.CustomResource, ...]
    """The queues; jobs depend on them."""

    def __init__(self, name: str, args: GangSchedulingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:GangScheduling", name, None, opts)
        self._nodes = args.nodes
        ready = self._install(nodes_scale=args.nodes_scale) if args.settings.install else []
        self.queues = tuple(
            self._child(f"queue-{queue.name}", volcano.queue_manifest(queue), ready) for queue in args.settings.queues
        )
        self.register_outputs({"queues": [queue.name for queue in args.settings.queues]})

    def _install(self, *, nodes_scale: bool) -> list[pulumi.Resource]:
        settings = volcano.scheduler_config_text(nodes_scale=nodes_scale)
        crds: list[pulumi.Resource] = [
            self._child(f"crd-{name}", manifest)
            for name, manifest in volcano.crd_manifests(volcano.chart_folder()).items()
        ]
        # Its pods need no privilege at all.
        namespace = self._child("namespace", namespace_manifest(volcano.NAMESPACE))
        config = self._child("scheduler-config", volcano.scheduler_config_manifest(settings), [namespace])
        scheduler = self._part(
            volcano.SCHEDULER,
            volcano.SCHEDULER_RULES,
            volcano.scheduler_manifest(VOLCANO_SCHEDULER_IMAGE, settings),
            [*crds, namespace, config],
        )
        controllers = self._part(
            volcano.CONTROLLERS,
            volcano.CONTROLLER_RULES,
            volcano.controllers_manifest(VOLCANO_CONTROLLERS_IMAGE),
            [*crds, namespace],
        )
        return [*crds, scheduler, controllers]

    def _part(
        self, name: str, rules: list[Manifest], deployment: Manifest, depends_on: list[pulumi.Resource]
    ) -> pulumi.Resource:
        permissions = [
            self._child(f"{name}-{manifest['kind'].lower()}", manifest, depends_on)
            for manifest in volcano.permission_manifests(name, rules)
        ]
        return self._child(name, deployment, [*depends_on, *permissions, *self._nodes])

    def _child(
        self, name: str, manifest: Manifest, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.CustomResource:
        return resource(name, manifest, pulumi.ResourceOptions(parent=self, depends_on=depends_on))
