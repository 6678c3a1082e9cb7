"""A program with node pools alone on a network that stands, and ways to look at what it asks for."""

from __future__ import annotations

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.ack_cluster import AckCluster, AckClusterArgs
from infra.alicloud.node_pools import NodePools, NodePoolsArgs
from tests.unit.infra.alicloud.environment import SYSTEM_POOL, record_on, settings, standing_network

POOL = "alicloud:cs/nodePool:NodePool"
AUTOSCALER = "alicloud:cs/autoscalingConfig:AutoscalingConfig"
DEPLOYMENT_SET = "alicloud:ecs/ecsDeploymentSet:EcsDeploymentSet"
FIXED_SYSTEM = {**SYSTEM_POOL, "maximum": 2}


def pools_program(environment):
    network = standing_network(environment)
    cluster = AckCluster("ack", AckClusterArgs(settings=environment, network=network))

    def before_rdma(system):
        after = pulumi.ResourceOptions(depends_on=list(system))
        return [alicloud.ecs.EcsDeploymentSet("stands-for-the-controller", opts=after)]

    args = NodePoolsArgs(settings=environment, cluster=cluster, network=network, before_rdma=before_rdma)
    pools = NodePools("pools", args)
    pulumi.export("pools", {name: pool.node_pool_name for name, pool in pools.pools.items()})
    pulumi.export("system", [pool.node_pool_name for pool in pools.system])


def record_pools(*pools, preview=True, **changes):
    return record_on(pools_program, settings(*pools, **changes), preview=preview)


def one_pool(raw, *, preview=True, **changes):
    [pool] = [r for r in record_pools(raw, preview=preview, **changes).of_type(POOL) if r.name == raw["name"]]
    return pool


def pool_inputs(raw, **changes):
    return one_pool(raw, **changes).inputs


def label_values(inputs):
    return {label["key"]: label["value"] for label in inputs["labels"]}
