"""Each mode of a pod's network is these fields of the pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.pod_network_modes import (
    POD_NETWORKING_LABEL,
    ExclusiveEni,
    HostNetwork,
    SharedEni,
    TrunkEni,
    interface,
    node_selector,
    pod_labels,
    port,
    spec_fields,
    without_network_policy,
)
from tests.tables import each_row

TRUNK = TrunkEni(pod_networking="storage")
SELECTOR = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}


@each_row(
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


@each_row("offset", [-1, 20001])
def test_an_offset_out_of_range_is_refused(offset):
    with pytest.raises(RefusalError, match="0 to 20000"):
        HostNetwork(port_offset=offset)
