"""The managed add-ons of an ACK cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.addon_table import ADDONS, Addon, Environment, config_json, version_of
from infra.alicloud.addon_versions import never_lower

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.ack_addons import Stage
    from infra.alicloud.ack_cluster import AckCluster
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.images import ImageSettings
    from infra.settings.monitoring import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class ClusterAddonsArgs:
    """Arguments of ClusterAddons."""

    settings: AlicloudSettings
    images: ImageSettings
    monitoring: MonitoringSettings
    cluster: AckCluster
    stage: Stage
    """`before_rdma`: what must be there before nodes with RDMA join (the eRDMA controller: nodes that join earlier get
    no RDMA interface); `after_pools`: the others."""
    installed: pulumi.Output[Mapping[str, str]]
    """Versions of the add-ons that the cluster has, by name."""
    depends_on: Sequence[pulumi.Resource] = ()
    """The system pools: the provider waits ten minutes for an add-on, whose pods need a node. Before RDMA also Terway's
    filter of interfaces, or Terway takes the RDMA ones."""


def wanted_addons(environment: Environment, stage: Stage) -> list[Addon]:
    """Return the add-ons of a stage that an environment needs, in the table's order."""
    return [addon for addon in ADDONS if addon.stage == stage and addon.applies_to(environment)]


def addons_of(args: ClusterAddonsArgs) -> list[Addon]:
    """Return the add-ons that a component with these arguments consists of."""
    return wanted_addons(_environment(args), args.stage)


def _environment(args: ClusterAddonsArgs) -> Environment:
    return Environment(alicloud=args.settings, images=args.images, monitoring=args.monitoring)


def addon_inputs(addon: Addon, environment: Environment, installed: pulumi.Output[Mapping[str, str]]) -> dict[str, Any]:
    """Return the inputs of an add-on's resource but the cluster. Its name is its identity, not a label."""
    minimum = version_of(addon, environment)
    return {
        "name": addon.name,
        "version": installed.apply(lambda versions: never_lower(minimum, versions.get(addon.name, ""))),
        "config": config_json(addon, environment),
    }


class ClusterAddons(pulumi.ComponentResource):
    """The add-ons of one stage.

    One that ACK installed with the cluster is taken over, and left where it is when its resource is deleted.
    """

    addons: dict[str, alicloud.cs.KubernetesAddon]
    """Add-ons by name."""

    def __init__(self, name: str, args: ClusterAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ClusterAddons", name, None, opts)
        environment = _environment(args)
        self.addons = {
            addon.name: alicloud.cs.KubernetesAddon(
                addon.name,
                cluster_id=args.cluster.cluster_id,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on)),
                **addon_inputs(addon, environment, args.installed),
            )
            for addon in addons_of(args)
        }
        if args.stage == "after_pools":
            self._name_what_the_api_does_not_install(args.settings)
        self.register_outputs({"addons": sorted(self.addons)})

    def _name_what_the_api_does_not_install(self, settings: AlicloudSettings) -> None:
        shared = [pool.name for pool in settings.node_pools if pool.gpu.sharing]
        if shared:
            pulumi.log.warn(
                f"The GPUs of {', '.join(shared)} are shared, which requires ACK's cloud-native AI suite"
                " (ack-ai-installer; with isolation mps also ack-mps-control). ACK's API cannot install it: install it"
                " once, on the cluster's page in the console.",
                resource=self,
            )
