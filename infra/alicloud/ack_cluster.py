"""The ACK Pro managed cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    import pulumi_alicloud as alicloud
    import pulumi_kubernetes as kubernetes

    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """Arguments of AckCluster."""

    settings: AlicloudSettings
    network: AlicloudNetwork


class AckCluster(pulumi.ComponentResource):
    """An ACK Pro managed cluster and the Kubernetes provider that reaches it."""

    cluster_id: pulumi.Output[str]
    provider: kubernetes.Provider
    oidc_issuer_url: pulumi.Output[str]
    oidc_provider_arn: pulumi.Output[str]
    resource: alicloud.cs.ManagedKubernetes

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:AckCluster", name, None, opts)
        self.register_outputs({})
