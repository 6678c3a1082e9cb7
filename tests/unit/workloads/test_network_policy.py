"""A workload opens its own ports and nothing else."""

from __future__ import annotations

from infra.monitoring import NAMESPACE
from workloads.network_policy import PolicyIdentity, job_network_policy_manifest, service_network_policy_manifest

JOB = PolicyIdentity(what="job", name="train", namespace="athanor", owner="athanor-local")
SERVICE = PolicyIdentity(what="service", name="digits", namespace="athanor", owner="athanor-local")
LABELS = {"athanor.dev/job": "train"}
OWN = [{"podSelector": {"matchLabels": LABELS}}]
EVERY_NAMESPACE = [{"namespaceSelector": {}}]


def may_reach(rule, namespace: str, **labels: str) -> bool:
    """Tell whether a rule lets the pods of a namespace in."""
    labels = {"kubernetes.io/metadata.name": namespace, **labels}

    def fits(selector) -> bool:
        labels_match = selector.get("matchLabels", {}).items() <= labels.items()
        return labels_match and all(
            each["operator"] == "In" and labels.get(each["key"]) in each["values"]
            for each in selector.get("matchExpressions", [])
        )

    return any(fits(peer["namespaceSelector"]) for peer in rule["from"])


def test_pods_of_a_job_reach_each_other_on_any_port():
    """Ranks talk on ports that the system chooses: only the peer can be limited."""
    spec = job_network_policy_manifest(JOB, LABELS, [8002])["spec"]
    assert spec["podSelector"] == {"matchLabels": LABELS}
    assert spec["ingress"][0] == {"from": OWN}
    assert spec["egress"] == [{"to": OWN}]


def test_only_prometheus_reaches_the_metrics_of_all_ranks():
    [_, scrape] = job_network_policy_manifest(JOB, LABELS, [8002, 8003])["spec"]["ingress"]
    assert scrape["ports"] == [{"protocol": "TCP", "port": 8002}, {"protocol": "TCP", "port": 8003}]
    assert may_reach(scrape, NAMESPACE)
    assert not may_reach(scrape, "athanor")
    assert not may_reach(scrape, "other")
    # An existing Prometheus may live anywhere: its namespace says so itself.
    assert may_reach(scrape, "other", **{"athanor.dev/reads-metrics": "true"})


def test_a_job_without_metrics_is_reached_by_nobody():
    assert job_network_policy_manifest(JOB, LABELS, [])["spec"]["ingress"] == [{"from": OWN}]


def test_a_service_is_called_on_its_ports_and_calls_nobody():
    spec = service_network_policy_manifest(SERVICE, LABELS, {"http": 8000, "metrics": 8002})["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec
    [called, scrape] = spec["ingress"]
    assert called == {"ports": [{"protocol": "TCP", "port": 8000}], "from": EVERY_NAMESPACE}
    assert scrape["ports"] == [{"protocol": "TCP", "port": 8002}]
    assert may_reach(scrape, NAMESPACE)
    assert not may_reach(scrape, "other")
