"""The node pools of an ACK cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.names import resource_name
from infra.alicloud.node_pool_inputs import node_pool_inputs
from infra.create_only import CreateOnly, given_and_changed, guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.alicloud.ack_cluster import AckCluster
    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.monitoring import MonitoringSettings
    from infra.settings.node_pools import NodePoolSettings


@dataclass(frozen=True, kw_only=True)
class NodePoolsArgs:
    """Arguments of NodePools."""

    settings: AlicloudSettings
    cluster: AckCluster
    network: AlicloudNetwork
    monitoring: MonitoringSettings | None = None
    """What runs on every node depends on it; None where only the pools are declared."""
    before_rdma: Callable[[Sequence[alicloud.cs.NodePool]], Sequence[pulumi.Resource]] = lambda _: ()
    """Declares what pools with RDMA wait for (Terway's configuration for them and the eRDMA controller), given the
    system pools, which that runs on."""


class NodePools(pulumi.ComponentResource):
    """All node pools of a cluster, and what scales them."""

    pools: dict[str, alicloud.cs.NodePool]
    """By the name in the settings."""
    system: tuple[alicloud.cs.NodePool, ...]
    """The pools that the platform's own parts run on."""

    def __init__(self, name: str, args: NodePoolsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        settings = args.settings
        own = pulumi.ResourceOptions(hooks=guard(f"{name}-replacement", [_kept(pool) for pool in settings.node_pools]))
        super().__init__(
            "athanor:infra:NodePools",
            name,
            {_input(pool): _what_replaces_it(settings, pool) for pool in settings.node_pools},
            pulumi.ResourceOptions.merge(opts, own),
        )
        scaler = self._autoscaler(args) if any(pool.autoscaled for pool in settings.node_pools) else None
        first = {pool.name: self._pool(pool, args, scaler) for pool in settings.node_pools if not pool.rdma}
        self.system = tuple(first[pool.name] for pool in settings.node_pools if pool.role == "system")
        before_rdma = args.before_rdma(self.system)
        with_rdma = {
            pool.name: self._pool(pool, args, scaler, before_rdma) for pool in settings.node_pools if pool.rdma
        }
        every = {**first, **with_rdma}
        self.pools = {pool.name: every[pool.name] for pool in settings.node_pools}
        _warn_of_empty_pools(settings, self)
        self.register_outputs({"pools": sorted(self.pools)})

    def _autoscaler(self, args: NodePoolsArgs) -> alicloud.cs.AutoscalingConfig:
        return alicloud.cs.AutoscalingConfig(
            "autoscaler",
            cluster_id=args.cluster.cluster_id,
            scaler_type=args.settings.kubernetes.autoscaler,
            expander="least-waste",
            # The provider reads these two back swapped: equal ones show no change.
            cool_down_duration="10m",
            unneeded_duration="10m",
            scale_up_from_zero=True,
            # Every training pod has its shared memory there; with such pods a node would never be given back.
            skip_nodes_with_local_storage=False,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _pool(
        self,
        pool: NodePoolSettings,
        args: NodePoolsArgs,
        scaler: alicloud.cs.AutoscalingConfig | None,
        before: Sequence[pulumi.Resource] = (),
    ) -> alicloud.cs.NodePool:
        network, zones = args.network, args.settings.zones_of(pool)
        depends_on = [*args.network.ready, *before]
        if pool.autoscaled and scaler:
            depends_on.append(scaler)
        return alicloud.cs.NodePool(
            pool.name,
            cluster_id=args.cluster.cluster_id,
            vswitch_ids=[network.node_vswitch_ids[zone] for zone in zones],
            security_group_ids=[network.security_group_id],
            deployment_set_id=self._deployment_set(pool) if pool.low_latency else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=depends_on,
                # Only a new cluster still replaces its pools, and neither stock nor quota holds a scarce pool twice.
                delete_before_replace=True,
                ignore_changes=_ignored(pool),
                hooks=guard(f"{pool.name}-create-only", _create_only(pool)) if pool.lingjun else None,
            ),
            **node_pool_inputs(args.settings, pool, args.monitoring),
        )

    def _deployment_set(self, pool: NodePoolSettings) -> pulumi.Output[str]:
        name = f"{pool.name}-placement"
        together = alicloud.ecs.EcsDeploymentSet(
            name,
            deployment_set_name=resource_name(name),
            strategy="LowLatency",
            opts=pulumi.ResourceOptions(parent=self),
        )
        return together.id


def _warn_of_empty_pools(settings: AlicloudSettings, component: pulumi.Resource) -> None:
    empty = [pool.name for pool in settings.node_pools if not pool.maximum]
    if empty:
        pulumi.log.warn(
            f"Node pools with maximum 0: {', '.join(empty)}. Pods placed there wait until the maximum is raised.",
            component,
        )


def _ignored(pool: NodePoolSettings) -> list[str]:
    # Another value replaces the pool, and an account may have one that was not asked for: ACK ignores `required` where
    # it has not enabled it. So it counts only when the pool is created.
    ignored = ["instanceMetadataOptions"]
    if not pool.rdma:
        # Earlier releases set it for every pool, and taking it away reconfigures the kubelets of running nodes.
        ignored.append("kubeletConfiguration")
    if pool.autoscaled:
        # The number of nodes that the autoscaler chose is not our change.
        ignored.append("desiredSize")
    return ignored


def _input(pool: NodePoolSettings) -> str:
    # A pool may be called as an attribute of the component is.
    return f"pool:{pool.name}"


def _what_replaces_it(settings: AlicloudSettings, pool: NodePoolSettings) -> dict[str, Any]:
    """Return the settings of a pool that the provider changes only by deleting it, with its nodes.

    Source: `ForceNew` in resource_alicloud_cs_kubernetes_node_pool.go of terraform-provider-alicloud 1.285.0.
    """
    existing = settings.network.existing
    return {
        "low_latency": pool.low_latency,
        "lingjun": pool.lingjun is not None,
        "security_group": (existing.security_group_id if existing else None) or "",
    }


def _kept(pool: NodePoolSettings) -> CreateOnly:
    return CreateOnly(
        input=_input(pool),
        setting=f"alicloud.node_pools {pool.name!r}",
        limit="another value would delete the pool, with its nodes and what runs there, and create it again",
        fix="restore it, and add a pool with another name; remove this one when nothing runs there any more",
        forbids=given_and_changed,
    )


def _create_only(pool: NodePoolSettings) -> list[CreateOnly]:
    return [
        CreateOnly(
            input="efloNodeGroup",
            setting=f"lingjun of node pool {pool.name!r}",
            limit="a pool keeps its Lingjun node group",
            fix="restore it, and add a pool with another name for another group",
        )
    ]
