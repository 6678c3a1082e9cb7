"""A whole environment on Alibaba Cloud, from an empty account to nodes that are ready for pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.alicloud.ack_cluster import AckCluster, AckClusterArgs
from infra.alicloud.addon_table import wants_log_service
from infra.alicloud.addon_versions import installed_versions
from infra.alicloud.addons import ClusterAddons, ClusterAddonsArgs, addons_of
from infra.alicloud.log_service import LogService, LogServiceArgs
from infra.alicloud.network import AlicloudNetwork, AlicloudNetworkArgs
from infra.alicloud.node_pools import NodePools, NodePoolsArgs
from infra.alicloud.provider import alicloud_provider
from infra.alicloud.trunk_networks import PodNetworkings, PodNetworkingsArgs
from infra.rdma import TerwayForRdma

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_alicloud as alicloud

    from infra.ack_addons import Stage
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.images import ImageSettings
    from infra.settings.monitoring import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class AlicloudEnvironment:
    """The environment that the rest of the program builds on."""

    provider: alicloud.Provider
    network: AlicloudNetwork
    cluster: AckCluster
    nodes: tuple[pulumi.Resource, ...]
    """Dependencies of the platform's own pods, which are created after and deleted before: the pools they run on, and
    the add-ons."""
    pod_networkings: tuple[pulumi.Resource, ...]
    """Dependencies of pods with a network of their own."""


def create_environment(
    settings: AlicloudSettings, images: ImageSettings, monitoring: MonitoringSettings
) -> AlicloudEnvironment:
    """Declare network, cluster, add-ons and node pools, in the order in which they need each other.

    Raises:
        RefusalError: the addresses do not suffice, or there are no credentials to update with.
    """
    provider = alicloud_provider(settings)
    in_cloud = pulumi.ResourceOptions(provider=provider)
    network = AlicloudNetwork(
        "network", AlicloudNetworkArgs(settings=settings, registry_instance=images.acr_instance_id), in_cloud
    )
    cluster = AckCluster("cluster", AckClusterArgs(settings=settings, network=network), in_cloud)

    installed = installed_versions(cluster)

    def addons(name: str, stage: Stage, depends_on: Sequence[pulumi.Resource]) -> tuple[pulumi.Resource, ...]:
        args = ClusterAddonsArgs(
            settings=settings,
            images=images,
            monitoring=monitoring,
            cluster=cluster,
            stage=stage,
            installed=installed,
            depends_on=depends_on,
        )
        return tuple(ClusterAddons(name, args, in_cloud).addons.values()) if addons_of(args) else ()

    def before_rdma(system: Sequence[alicloud.cs.NodePool]) -> tuple[pulumi.Resource, ...]:
        filters = _terway_for_rdma(settings, cluster)
        return (*filters, *addons("addons-before-pools", "before_rdma", (*filters, *system)))

    pools = NodePools(
        "node-pools",
        NodePoolsArgs(
            settings=settings,
            cluster=cluster,
            network=network,
            monitoring=monitoring,
            before_rdma=before_rdma,
        ),
        in_cloud,
    )
    late = addons("addons", "after_pools", pools.system)
    if wants_log_service(monitoring):
        args = LogServiceArgs(settings=monitoring.logs, cluster_id=cluster.cluster_id, depends_on=late)
        LogService("log-service", args, pulumi.ResourceOptions(provider=cluster.provider))
    return AlicloudEnvironment(
        provider=provider,
        network=network,
        cluster=cluster,
        nodes=(*pools.pools.values(), *late),
        pod_networkings=_pod_networkings(settings, network, cluster),
    )


def _terway_for_rdma(settings: AlicloudSettings, cluster: AckCluster) -> tuple[pulumi.Resource, ...]:
    if not any(pool.rdma and not pool.lingjun for pool in settings.node_pools):
        return ()
    return (TerwayForRdma("terway-for-rdma", pulumi.ResourceOptions(provider=cluster.provider)).config,)


def _pod_networkings(
    settings: AlicloudSettings, network: AlicloudNetwork, cluster: AckCluster
) -> tuple[pulumi.Resource, ...]:
    if not settings.pod_networkings:
        return ()
    args = PodNetworkingsArgs(
        settings=settings.pod_networkings,
        vswitch_ids=list(network.pod_vswitch_ids.values()),
        security_group_ids=[network.security_group_id],
    )
    return PodNetworkings("pod-networkings", args, pulumi.ResourceOptions(provider=cluster.provider)).networkings
