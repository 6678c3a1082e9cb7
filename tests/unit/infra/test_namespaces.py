from __future__ import annotations

from infra.namespaces import default_deny_manifest, namespace_manifest, owner_of
from tests.tables import each_row
from tools.stacks.engine import stack_config

LEVEL = "pod-security.kubernetes.io/"


@each_row("level", ["privileged", "baseline", "restricted"])
def test_the_level_is_the_one_asked_for(level):
    manifest = namespace_manifest("a", level)
    assert manifest["metadata"]["name"] == "a"
    assert manifest["metadata"]["labels"][f"{LEVEL}enforce"] == level
    assert namespace_manifest("a") == namespace_manifest("a", "restricted")
    assert namespace_manifest("a")["metadata"]["labels"][f"{LEVEL}warn"] == "restricted"


def test_default_deny_closes_all_pods_in_both_directions():
    spec = default_deny_manifest("a")["spec"]
    assert spec["podSelector"] == {}
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in spec


def test_default_deny_lets_dns_through_and_nothing_else():
    [rule] = default_deny_manifest("a")["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    [peer] = rule["to"]
    # Both selectors in one peer: pods of kube-dns in kube-system. In two peers they would mean either of them.
    assert set(peer) == {"namespaceSelector", "podSelector"}


@each_row(
    "name", ["default", "kube-system", "kube-public", "kube-node-lease", "kube-flannel", "arms-prom", "ack-csi-fuse"]
)
def test_namespaces_of_kubernetes_and_ack_are_theirs(name):
    assert owner_of(name) in {"Kubernetes", "ACK"}


def test_the_platforms_own_namespaces_are_not_for_workloads(record_stack):
    everything = {"gpu": {"device_plugin": True, "dcgm_exporter": True}, "clean_up": {"enabled": True}}
    recordings = (record_stack(everything), record_stack(stack_config("prod"), stack="prod"))
    made = {namespace.inputs["metadata"]["name"] for each in recordings for namespace in each.of_kind("Namespace")}
    assert len(made) == 6
    assert {name for name in made if owner_of(name) is None} == {"athanor"}
