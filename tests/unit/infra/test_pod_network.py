"""Each network is what it is on a pod, and Terway's own resources are matched by our label alone."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.errors import RefusalError
from infra.pod_network import (
    POD_NETWORKING_LABEL,
    ExclusiveEni,
    HostNetwork,
    PodNetworkings,
    PodNetworkingsArgs,
    SharedEni,
    TrunkEni,
    interface,
    node_selector,
    pod_labels,
    port,
    spec_fields,
    without_network_policy,
)
from infra.settings.pod_networking import PodNetworkingSettings
from tests.recording_engine import UNKNOWN, record

TRUNK = TrunkEni(pod_networking="storage")
SELECTOR = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}


@pytest.mark.parametrize(
    ("network", "labels", "selector", "fields", "open_to_all"),
    [
        (SharedEni(), {}, {}, {}, False),
        (TRUNK, {POD_NETWORKING_LABEL: "storage"}, {}, {}, False),
        (ExclusiveEni(), {}, SELECTOR, {}, True),
        (HostNetwork(), {}, {}, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, True),
    ],
    ids=["shared", "trunk", "exclusive", "host"],
)
def test_a_network_is_these_parts_of_a_pod(network, labels, selector, fields, open_to_all):
    assert pod_labels(network) == labels
    assert node_selector(network) == selector
    assert spec_fields(network) == fields
    assert without_network_policy(network) is open_to_all


def test_collectives_use_the_pods_own_interface_except_on_the_host():
    assert {interface(network) for network in (SharedEni(), TRUNK, ExclusiveEni(), HostNetwork())} == {"eth0"}
    assert interface(HostNetwork(interface="bond0")) == "bond0"


@given(st.integers(1, 65535), st.integers(0, 20000))
def test_ports_move_on_the_host_alone(number, offset):
    for network in (SharedEni(), TRUNK, ExclusiveEni()):
        assert port(network, number) == number
    network = HostNetwork(port_offset=offset)
    if number + offset <= 65535:
        assert port(network, number) == number + offset
    else:
        with pytest.raises(RefusalError, match=f"at most {65535 - number}"):
            port(network, number)


@pytest.mark.parametrize("offset", [-1, 20001])
def test_an_offset_out_of_range_is_refused(offset):
    with pytest.raises(RefusalError, match="0 to 20000"):
        HostNetwork(port_offset=offset)


def _declared(*networkings: PodNetworkingSettings, preview: bool = False):
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        vswitch = kubernetes.core.v1.ConfigMap("vswitch", data={}, opts=pulumi.ResourceOptions(provider=provider))
        args = PodNetworkingsArgs(settings=networkings, vswitch_ids=[vswitch.id], security_group_ids=["sg-env"])
        PodNetworkings("pod-networkings", args, pulumi.ResourceOptions(provider=provider))

    return record(program, preview=preview)


OWN = PodNetworkingSettings(name="storage", vswitch_ids=("vsw-a", "vsw-b"), security_group_ids=("sg-a",))


def test_a_pod_networking_serves_the_pods_that_carry_its_name():
    found = _declared(OWN).one("pod-networking-storage", "PodNetworking")
    assert found.inputs["apiVersion"] == "network.alibabacloud.com/v1beta1"
    assert found.inputs["metadata"]["name"] == "storage"
    assert found.inputs["spec"] == {
        "allocationType": {"type": "Elastic"},
        "eniOptions": {"eniType": "Trunk"},
        "selector": {"podSelector": {"matchLabels": pod_labels(TRUNK)}},
        "vSwitchOptions": ["vsw-a", "vsw-b"],
        "securityGroupIDs": ["sg-a"],
    }


@pytest.mark.parametrize("preview", [True, False])
def test_the_environments_ids_stand_in_where_none_is_named(preview):
    recording = _declared(PodNetworkingSettings(name="plain"), OWN, preview=preview)
    assert {found.name for found in recording.of_kind("PodNetworking")} == {
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


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Storage"},
        {"name": "a", "vswitch_ids": ["sg-a"]},
        {"name": "a", "security_group_ids": ["vsw-a"]},
        {"name": "a", "security_group_ids": [f"sg-{number}" for number in range(11)]},
        {"name": "a", "selector": {}},
    ],
)
def test_settings_that_terway_would_refuse_are_no_settings(fields):
    with pytest.raises(ValidationError):
        PodNetworkingSettings.model_validate(fields)
