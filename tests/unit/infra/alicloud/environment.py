"""An environment on Alibaba Cloud to test with: its settings as a user writes them, and a network that stands still."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from infra.settings.alicloud import AlicloudSettings
from tests.recording_engine import Recording, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SYSTEM_POOL = {"name": "system", "role": "system", "instance_types": ["ecs.g8i.xlarge"], "minimum": 2, "maximum": 3}
GPU_POOL = {"name": "a10", "role": "gpu", "instance_types": ["ecs.gn7i-c16g1.4xlarge"], "maximum": 8}
ERDMA_POOL = {
    "name": "h20",
    "role": "gpu",
    "instance_types": ["ecs.ebmgn8v.48xlarge"],
    "minimum": 1,
    "maximum": 4,
    "rdma": True,
}
LINGJUN_POOL = {
    "name": "lingjun",
    "role": "gpu",
    "minimum": 4,
    "maximum": 4,
    "eni": "exclusive",
    "rdma": True,
    "lingjun": {"cluster_id": "i-lingjun", "group_id": "i-group"},
}
ZONES = ("cn-hangzhou-i", "cn-hangzhou-j")


def pool(base: dict[str, Any] = GPU_POOL, **changes: Any) -> dict[str, Any]:
    """A node pool that differs from `base`."""
    return {**base, **changes}


def settings(*pools: dict[str, Any], **changes: Any) -> AlicloudSettings:
    """An environment with a system pool, these pools and these other keys."""
    raw = {"region": "cn-hangzhou", "zones": ZONES, "node_pools": [SYSTEM_POOL, *pools], **changes}
    return AlicloudSettings.model_validate(raw)


@dataclass(frozen=True, kw_only=True)
class StandingNetwork:
    """What the cluster and its pools read of AlicloudNetwork, as if its vswitches existed."""

    node_vswitch_ids: dict[str, pulumi.Output[str]]
    pod_vswitch_ids: dict[str, pulumi.Output[str]]
    security_group_id: pulumi.Output[str]
    ready: tuple[pulumi.Resource, ...] = ()


def standing_network(environment: AlicloudSettings) -> Any:
    """The network of an environment, known before the update."""
    letters = {zone: zone[-1] for zone in environment.zones}
    return StandingNetwork(
        node_vswitch_ids={zone: pulumi.Output.from_input(f"vsw-node{letter}") for zone, letter in letters.items()},
        pod_vswitch_ids={zone: pulumi.Output.from_input(f"vsw-pod{letter}") for zone, letter in letters.items()},
        security_group_id=pulumi.Output.from_input("sg-own"),
    )


ISSUER = "https://oidc-ack-cn-hangzhou.example/c1"
PROVIDER_ARN = "acs:ram::1234567890123456:oidc-provider/ack-rrsa-c1"
PUBLIC, INSIDE = "https://47.0.0.1:6443", "https://10.64.0.9:6443"
KUBECONFIG = f"clusters:\n- cluster:\n    server: {PUBLIC}\n  name: c\nusers: []\n"
"""As the API gives it, whether the cluster has a public address or not."""
OFFERED = ["1.36.2-aliyun.1", "1.35.7-aliyun.1", "1.34.10-aliyun.1"]
"""Versions that ACK creates clusters with."""
STASH = "pulumi:index:Stash"
OUTPUTS = {
    STASH: {"output": OFFERED},
    "alicloud:cs/managedKubernetes:ManagedKubernetes": {
        "rrsaMetadata": {"enabled": True, "rrsaOidcIssuerUrl": ISSUER, "ramOidcProviderArn": PROVIDER_ARN},
        "connections": {"apiServerIntranet": INSIDE},
    },
}
ADDONS = "alicloud:cs/getKubernetesAddons:getKubernetesAddons"
VERSIONS = "alicloud:cs/getKubernetesVersion:getKubernetesVersion"
ANSWERS = {
    "alicloud:cs/getClusterCredential:getClusterCredential": {"kubeConfig": KUBECONFIG},
    ADDONS: {"addons": []},
    VERSIONS: {"clusterType": "ManagedKubernetes", "metadatas": [{"version": v, "runtimes": []} for v in OFFERED]},
}


def record_on(
    program: Callable[[AlicloudSettings], object],
    environment: AlicloudSettings,
    *,
    preview: bool = True,
    stack: str = "prod",
    answers: Mapping[str, Mapping[str, Any]] = ANSWERS,
) -> Recording:
    """Run `program` with an environment's settings and return what it asked of the engine."""
    return record(
        functools.partial(program, environment), preview=preview, stack=stack, answers=answers, outputs=OUTPUTS
    )
