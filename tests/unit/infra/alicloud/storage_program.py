"""The storage of an environment as a program of its own, on a network and a cluster that stand still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from infra.alicloud.storage import AlicloudStorage, AlicloudStorageArgs
from infra.manifests import resource
from infra.namespaces import namespace_manifest
from infra.settings.parse import parse_settings
from infra.shared_storage import SharedStorage, SharedStorageArgs
from infra.storage import choose_backing
from tests.recording_engine import Recording, record

REGION = "cn-hangzhou"
ZONES = ["cn-hangzhou-i", "cn-hangzhou-j"]
OUTPUTS = {"alicloud:nas/mountTarget:MountTarget": {"mountTargetDomain": "file-system.cn-hangzhou.nas.aliyuncs.com"}}
POOL = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2}


class _Network(pulumi.ComponentResource):
    """Stands for AlicloudNetwork: what the storage reads of it."""

    def __init__(self) -> None:
        super().__init__("athanor:tests:Network", "network")
        self.vpc_id = pulumi.Output.from_input("vpc-1")
        self.node_vswitch_ids = {zone: pulumi.Output.from_input(f"vsw-{zone}") for zone in ZONES}
        self.register_outputs({})


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """Stands for AckCluster."""

    oidc_issuer_url: str
    oidc_provider_arn: str


def _program(storage: dict[str, Any], environment: dict[str, Any]) -> None:
    pool = {"region": REGION, "zones": ZONES, "node_pools": [POOL]}
    settings = parse_settings({"alicloud": {**pool, **environment}, "storage": storage})
    assert settings.alicloud
    both = pulumi.ResourceOptions(
        providers=[alicloud.Provider("alicloud", region=REGION), kubernetes.Provider("cluster", kubeconfig="{}")]
    )
    namespace = resource("namespace", namespace_manifest("team"), pulumi.ResourceOptions(provider=both.providers[1]))
    made = AlicloudStorage(
        "alicloud-storage",
        AlicloudStorageArgs(
            settings=settings.alicloud,
            storage=settings.storage,
            network=_Network(),
            cluster=_Cluster(
                oidc_issuer_url="https://oidc.example/c1", oidc_provider_arn="acs:ram::1:oidc-provider/c1"
            ),
            namespace="team",
            depends_on=[namespace],
        ),
        both,
    )
    SharedStorage(
        "storage",
        SharedStorageArgs(
            namespace="team",
            settings=settings.storage,
            backing=choose_backing(settings, made.backing),
            protected=settings.alicloud.protected,
            depends_on=[namespace],
        ),
        pulumi.ResourceOptions(provider=both.providers[1]),
    )


def environment(storage: dict[str, Any] | None = None, *, preview: bool = False, **given: Any) -> Recording:
    """Record the storage of an environment."""
    return record(lambda: _program(storage or {}, given), preview=preview, stack="prod", outputs=OUTPUTS)
