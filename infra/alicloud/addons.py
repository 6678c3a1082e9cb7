"""The managed add-ons of an ACK cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.addon_table import ADDONS, Addon, Environment, Stage, config_json, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """`before_pools`: what must be there before the nodes it works on (the eRDMA controller: nodes that join earlier
    get no RDMA interface); `after_pools`: what runs on nodes."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Before the pools: Terway's filter of interfaces, or Terway takes the RDMA ones. After: the system pools."""


def wanted_addons(environment: Environment, stage: Stage) -> list[Addon]:
    """Return the add-ons of a stage that an environment needs, in the table's order."""
    return [addon for addon in ADDONS if addon.stage == stage and addon.wanted(environment)]


def addon_inputs(addon: Addon, environment: Environment) -> dict[str, Any]:
    """Return the inputs of an add-on's resource but the cluster. Its name is its identity, not a label."""
    return {
        "name": addon.name,
        "version": version_of(addon, environment),
        "config": config_json(addon, environment),
    }


class ClusterAddons(pulumi.ComponentResource):
    """The add-ons of one stage.

    One that ACK installed with the cluster is taken over, and left where it is when its resource is deleted.
    """

    addons: dict[str, alicloud.cs.KubernetesAddon]
    """By add-on name."""

    def __init__(self, name: str, args: ClusterAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ClusterAddons", name, None, opts)
        environment = Environment(alicloud=args.settings, images=args.images, monitoring=args.monitoring)
        self.addons = {
            addon.name: alicloud.cs.KubernetesAddon(
                addon.name,
                cluster_id=args.cluster.cluster_id,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on)),
                **addon_inputs(addon, environment),
            )
            for addon in wanted_addons(environment, args.stage)
        }
        if args.stage == "after_pools":
            self._name_what_the_api_does_not_install(args.settings)
        self.register_outputs({"addons": sorted(self.addons)})

    def _name_what_the_api_does_not_install(self, settings: AlicloudSettings) -> None:
        shared = [pool.name for pool in settings.node_pools if pool.gpu.sharing]
        if shared:
            pulumi.log.warn(
                f"The GPUs of {', '.join(shared)} are shared, which needs ACK's cloud-native AI suite"
                " (ack-ai-installer; with isolation mps also ack-mps-control). ACK's API does not install it: do so"
                " once, on the cluster's page in the console.",
                resource=self,
            )
