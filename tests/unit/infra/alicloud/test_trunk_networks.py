"""Terway's PodNetworking resources are matched by our label alone."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from pydantic import ValidationError

from infra.alicloud.environment import PodNetworkings, PodNetworkingsArgs
from infra.pod_network_modes import TrunkEni, pod_labels
from infra.settings.trunk_networks import PodNetworkingSettings
from tests.recording_engine import UNKNOWN, record
from tests.tables import each_row


def _declared(*networkings: PodNetworkingSettings, preview: bool = False):
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        vswitch = kubernetes.core.v1.ConfigMap("vswitch", data={}, opts=pulumi.ResourceOptions(provider=provider))
        args = PodNetworkingsArgs(settings=networkings, vswitch_ids=[vswitch.id], security_group_ids=["sg-env"])
        PodNetworkings("pod-networkings", args, pulumi.ResourceOptions(provider=provider))

    return record(program, preview=preview)


OWN = PodNetworkingSettings(name="storage", vswitch_ids=("vsw-a", "vsw-b"), security_group_ids=("sg-a",))


def test_a_pod_networking_serves_the_pods_that_carry_its_name():
    pod_networking = _declared(OWN).one("pod-networking-storage", "PodNetworking")
    assert pod_networking.inputs["apiVersion"] == "network.alibabacloud.com/v1beta1"
    assert pod_networking.inputs["metadata"]["name"] == "storage"
    assert pod_networking.inputs["spec"] == {
        "allocationType": {"type": "Elastic"},
        "eniOptions": {"eniType": "Trunk"},
        "selector": {"podSelector": {"matchLabels": pod_labels(TrunkEni(pod_networking="storage"))}},
        "vSwitchOptions": ["vsw-a", "vsw-b"],
        "securityGroupIDs": ["sg-a"],
    }


@each_row("preview", [True, False])
def test_the_environments_ids_stand_in_where_none_is_named(preview):
    recording = _declared(PodNetworkingSettings(name="plain"), OWN, preview=preview)
    assert {pod_networking.name for pod_networking in recording.of_kind("PodNetworking")} == {
        "pod-networking-plain",
        "pod-networking-storage",
    }
    spec = recording.one("pod-networking-plain").inputs["spec"]
    assert spec["vSwitchOptions"] == [UNKNOWN if preview else "vswitch-id"]
    assert spec["securityGroupIDs"] == ["sg-env"]


def test_the_component_is_the_parent_and_says_what_it_holds():
    recording = _declared(OWN)
    component = recording.one("pod-networkings")
    assert component.outputs == {"names": ["storage"]}
    assert recording.one("pod-networking-storage").parent == component.urn


@each_row(
    "fields",
    [
        {"name": "Storage"},
        {"name": "a", "vswitch_ids": ["sg-a"]},
        {"name": "a", "security_group_ids": ["vsw-a"]},
        {"name": "a", "security_group_ids": [f"sg-{number}" for number in range(11)]},
        {"name": "a", "selector": {}},
    ],
)
def test_settings_that_terway_would_refuse_are_not_settings(fields):
    with pytest.raises(ValidationError):
        PodNetworkingSettings.model_validate(fields)
