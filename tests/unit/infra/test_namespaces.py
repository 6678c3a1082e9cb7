from __future__ import annotations

import pytest

from infra.namespaces import default_deny_manifest, namespace_manifest

LEVEL = "pod-security.kubernetes.io/"


def test_a_namespace_enforces_restricted_unless_told_otherwise():
    labels = namespace_manifest("a")["metadata"]["labels"]
    assert labels[f"{LEVEL}enforce"] == labels[f"{LEVEL}warn"] == "restricted"


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_the_level_is_the_one_asked_for(level):
    manifest = namespace_manifest("a", level)
    assert manifest["metadata"]["name"] == "a"
    assert manifest["metadata"]["labels"][f"{LEVEL}enforce"] == level


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
