from __future__ import annotations

import re

import pytest

from infra.build import simulated_node_manifest
from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES
from tests.fixtures.recorded_stack import UNWATCHED
from tests.tables import each_row

TYPE = "ecs.ebmgn7e.32xlarge"


@each_row("type_name", INSTANCE_TYPES)
def test_a_node_has_the_capacity_of_its_type(type_name):
    facts = INSTANCE_TYPES[type_name]
    manifest = simulated_node_manifest("sim-0", type_name, "zone-a")
    capacity = manifest["status"]["capacity"]
    assert capacity["cpu"] == str(facts.vcpus)
    # As the API server writes it back: a refresh would show any other spelling as a change.
    assert capacity["memory"] == ("1Ti" if facts.memory_gib == 1024 else f"{facts.memory_gib}Gi")
    labels = manifest["metadata"]["labels"]
    assert capacity.get("nvidia.com/gpu", "0") == labels.get("nvidia.com/gpu.count", "0") == str(facts.gpus)
    assert int(capacity["pods"]) <= min(110, facts.shared_eni_pods)
    assert manifest["status"]["allocatable"] == capacity


def test_no_pod_lands_on_a_simulated_node_by_accident():
    manifest = simulated_node_manifest("sim-0", TYPE, "zone-a")
    taints = {taint["key"]: taint["effect"] for taint in manifest["spec"]["taints"]}
    assert taints == {"kwok.x-k8s.io/node": "NoSchedule", "nvidia.com/gpu": "NoSchedule"}


def test_a_node_without_gpus_claims_none():
    manifest = simulated_node_manifest("sim-0", "ecs.g7.xlarge", "zone-a")
    assert not any(key.startswith("nvidia.com/") for key in manifest["status"]["capacity"])
    assert not any(key.startswith("nvidia.com/") for key in manifest["metadata"]["labels"])
    assert [taint["key"] for taint in manifest["spec"]["taints"]] == ["kwok.x-k8s.io/node"]


def test_kwok_keeps_the_node_alive_and_up_does_not_wait_for_it():
    annotations = simulated_node_manifest("sim-0", TYPE, "zone-a")["metadata"]["annotations"]
    assert annotations == {"kwok.x-k8s.io/node": "fake", "pulumi.com/skipAwait": "true"}


def test_label_values_are_valid():
    for type_name in INSTANCE_TYPES:
        for value in simulated_node_manifest("sim-0", type_name, "zone-a")["metadata"]["labels"].values():
            assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_an_unknown_type_is_refused():
    with pytest.raises(RefusalError):
        simulated_node_manifest("sim-0", "ecs.none", "zone-a")


def test_the_stack_declares_as_many_as_the_settings_say(record_stack):
    groups = [{"instance_type": TYPE, "count": 3}, {"instance_type": "ecs.gn8v-8x.48xlarge", "count": 1}]
    recording = record_stack({"cluster": {"simulated_nodes": groups}, **UNWATCHED})
    nodes = recording.of_kind("Node")
    assert {node.name for node in nodes} == {
        *(f"sim-ebmgn7e-32xlarge-{index}" for index in range(3)), "sim-gn8v-8x-48xlarge-0",
    }  # fmt: skip
    assert all(node.inputs["metadata"]["name"] == node.name for node in nodes)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", node.name) for node in nodes)
    # Nodes of a type lie in two zones in turn.
    labels = {node.name: node.inputs["metadata"]["labels"] for node in nodes}
    zones = [labels[f"sim-ebmgn7e-32xlarge-{index}"]["topology.kubernetes.io/zone"] for index in range(3)]
    assert zones == ["simulated-a", "simulated-b", "simulated-a"]


def test_there_are_none_by_default(local_stack):
    assert local_stack.of_kind("Node") == []
    assert local_stack.of_type("athanor:infra:SimulatedGpuNodes") == []
