"""The add-ons of an ACK cluster, each with its pinned version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_alicloud as alicloud

    from infra.alicloud.ack_cluster import AckCluster
    from infra.settings.alicloud import AlicloudSettings


@dataclass(frozen=True, kw_only=True)
class ClusterAddonsArgs:
    """Arguments of ClusterAddons."""

    settings: AlicloudSettings
    cluster: AckCluster
    before_erdma: Sequence[pulumi.Resource] = ()
    """What must be in place before the eRDMA controller takes over interfaces: Terway's ENI filter."""


class ClusterAddons(pulumi.ComponentResource):
    """The managed add-ons of a cluster."""

    addons: dict[str, alicloud.cs.KubernetesAddon]
    """By add-on name."""

    def __init__(self, name: str, args: ClusterAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ClusterAddons", name, None, opts)
        self.addons = {}
        self.register_outputs({})
