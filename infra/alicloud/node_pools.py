"""The node pools of an ACK cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    import pulumi_alicloud as alicloud

    from infra.alicloud.ack_cluster import AckCluster
    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings


@dataclass(frozen=True, kw_only=True)
class NodePoolsArgs:
    """Arguments of NodePools."""

    settings: AlicloudSettings
    cluster: AckCluster
    network: AlicloudNetwork


class NodePools(pulumi.ComponentResource):
    """All node pools of a cluster."""

    pools: dict[str, alicloud.cs.NodePool]
    """By the name in the settings."""

    def __init__(self, name: str, args: NodePoolsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:NodePools", name, None, opts)
        self.pools = {}
        self.register_outputs({})
