"""The networks of pods with a trunk interface: Terway's PodNetworking resources.

Source: AliyunContainerService/terway, docs/terway-trunk.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.manifests import Manifest, resource
from infra.pod_network_modes import POD_NETWORKING_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.trunk_networks import PodNetworkingSettings


def pod_networking_manifest(
    settings: PodNetworkingSettings,
    vswitch_ids: Sequence[pulumi.Input[str]],
    security_group_ids: Sequence[pulumi.Input[str]],
) -> Manifest:
    """Return a PodNetworking; where the settings name no ids, it has those given."""
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "PodNetworking",
        "metadata": {"name": settings.name},
        "spec": {
            "allocationType": {"type": "Elastic"},
            "eniOptions": {"eniType": "Trunk"},
            "selector": {"podSelector": {"matchLabels": {POD_NETWORKING_LABEL: settings.name}}},
            "vSwitchOptions": list(settings.vswitch_ids or vswitch_ids),
            "securityGroupIDs": list(settings.security_group_ids or security_group_ids),
        },
    }


@dataclass(frozen=True, kw_only=True)
class PodNetworkingsArgs:
    """Arguments of PodNetworkings."""

    settings: Sequence[PodNetworkingSettings]
    vswitch_ids: Sequence[pulumi.Input[str]]
    """The environment's vswitches for pods."""
    security_group_ids: Sequence[pulumi.Input[str]]
    """The environment's security groups."""


class PodNetworkings(pulumi.ComponentResource):
    """The PodNetworking resources of a stack; Terway with trunking must run already."""

    networkings: tuple[pulumi.CustomResource, ...]
    """The resources; workloads that use one depend on them."""

    def __init__(self, name: str, args: PodNetworkingsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:PodNetworkings", name, None, opts)
        self.networkings = tuple(
            resource(
                f"pod-networking-{settings.name}",
                pod_networking_manifest(settings, args.vswitch_ids, args.security_group_ids),
                pulumi.ResourceOptions(parent=self),
            )
            for settings in args.settings
        )
        self.register_outputs({"names": [settings.name for settings in args.settings]})
