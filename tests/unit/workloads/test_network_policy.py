"""A workload opens its own ports and nothing else."""

from __future__ import annotations

from workloads.network_policy import job_network_policy_manifest, service_network_policy_manifest

LABELS = {"athanor.dev/job": "train"}
OWN = [{"podSelector": {"matchLabels": LABELS}}]
EVERY_NAMESPACE = [{"namespaceSelector": {}}]


def test_pods_of_a_job_reach_each_other_on_any_port():
    """Ranks talk on ports that the system chooses: only the peer can be limited."""
    spec = job_network_policy_manifest("train", "athanor", LABELS, 8002)["spec"]
    assert spec["podSelector"] == {"matchLabels": LABELS}
    assert spec["ingress"][0] == {"from": OWN}
    assert spec["egress"] == [{"to": OWN}]


def test_others_reach_only_the_metrics_of_a_job():
    [_, scrape] = job_network_policy_manifest("train", "athanor", LABELS, 8002)["spec"]["ingress"]
    assert scrape == {"ports": [{"protocol": "TCP", "port": 8002}], "from": EVERY_NAMESPACE}


def test_a_service_is_called_on_its_ports_and_calls_nobody():
    spec = service_network_policy_manifest("digits", "athanor", LABELS, [8000, 8002])["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec
    [rule] = spec["ingress"]
    assert rule == {
        "ports": [{"protocol": "TCP", "port": 8000}, {"protocol": "TCP", "port": 8002}],
        "from": EVERY_NAMESPACE,
    }
