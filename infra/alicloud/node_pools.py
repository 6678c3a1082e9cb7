"""The node pools of an ACK cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.names import resource_name
from infra.alicloud.node_pool_inputs import ON_DEMAND, node_pool_inputs
from infra.create_only import CreateOnly, given_and_changed, guard
from infra.node_labels import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    """Dependency of what runs on every node; None where only the pools are declared."""
    before_rdma: Callable[[Sequence[alicloud.cs.NodePool]], Sequence[pulumi.Resource]] = lambda _: ()
    """Declares what pools with RDMA wait for (Terway's configuration for them and the eRDMA controller), given the
    system pools, which that runs on."""


class NodePools(pulumi.ComponentResource):
    """All node pools of a cluster, and what scales them."""

    pools: dict[str, alicloud.cs.NodePool]
    """Pools by their names in the settings."""
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
                hooks=_hooks(pool),
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


def _hooks(pool: NodePoolSettings) -> pulumi.ResourceHookBinding:
    hooks = guard(f"{pool.name}-create-only", _create_only(pool))
    on_dry_run = pulumi.ResourceHookOptions(on_dry_run=True)
    fewer = pulumi.ResourceHook(f"{pool.name}-fewer-nodes", _warn_of_fewer_nodes, on_dry_run)
    hooks.before_update = [*(hooks.before_update or []), fewer]
    return hooks


def _create_only(pool: NodePoolSettings) -> list[CreateOnly]:
    if pool.lingjun:
        return [
            CreateOnly(
                input="efloNodeGroup",
                setting=f"lingjun of node pool {pool.name!r}",
                limit="a pool keeps its Lingjun node group",
                fix="restore it, and add a pool with another name for another group",
            )
        ]
    return [
        CreateOnly(
            input="spotStrategy",
            setting=f"spot of node pool {pool.name!r}",
            # ACK, "Create and manage node pools", billing method.
            limit="ACK changes no pool from on-demand to spot nodes or back",
            fix="restore it, and add a pool with another name; remove this one when nothing runs there any more",
            forbids=_changes_billing,
        )
    ]


def _changes_billing(old: object, new: object) -> bool:
    return isinstance(old, str) and isinstance(new, str) and (old == ON_DEMAND) != (new == ON_DEMAND)


def _warn_of_fewer_nodes(args: pulumi.ResourceHookArgs) -> None:
    """Say what becomes of pods where a pool's largest size gets smaller.

    Source: ACK, "Manually scale node pools" (2026-03-26): nodes beyond the expected number are removed at once, not
    drained.
    """
    before, after = (_most_nodes(inputs or {}) for inputs in (args.old_inputs, args.new_inputs))
    if before is not None and after is not None and after < before:
        pulumi.log.warn(
            f"Node pool {args.name}: at most {after} nodes in place of {before}. ACK removes nodes beyond that without"
            f" draining them, and jobs there end. {_how_to_shrink(args.name, args.new_inputs or {}, before - after)}"
        )


def _how_to_shrink(pool: str, inputs: Mapping[str, Any], surplus: int) -> str:
    """Say how to do it without ending jobs: of a pool of fixed size, draining all nodes would end those that stay."""
    nodes = f"kubectl get nodes -l {POOL_LABEL}={pool}"
    drain = "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data"
    if inputs.get("scalingConfig"):
        return f"Wait until they are idle, or drain and remove nodes first: {nodes}; {drain}"
    remove = "remove those in the pool's console with the number of nodes lowered (RemoveNodePoolNodes)"
    return f"First choose {surplus} of {nodes}, {drain}, and {remove}: lowering the setting then changes nothing more"


def _most_nodes(inputs: Mapping[str, Any]) -> int | None:
    scaling = inputs.get("scalingConfig")
    most = scaling.get("maxSize") if scaling else inputs.get("desiredSize")
    return int(most) if isinstance(most, int | float | str) else None
