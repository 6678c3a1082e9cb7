"""Network policies of workloads: each opens only its own ports in a namespace that is closed by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

from infra.monitoring.monitors import READERS
from infra.pod_network import without_network_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infra.manifests import Manifest
    from infra.pod_network import PodNetwork


def _policy(name: str, namespace: str, labels: dict[str, str], rules: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress", "Egress"], **rules},
    }


def job_network_policy_manifest(
    name: str, namespace: str, labels: dict[str, str], metrics_ports: Sequence[int], git_port: int | None = None
) -> Manifest:
    """Return the policy of a job: its own pods reach each other on any port, Prometheus reaches their metrics.

    Args:
        name: Name of the policy.
        namespace: Where the job runs.
        labels: Labels that all pods of the job and no other pods carry.
        metrics_ports: Ports of all ranks of a pod.
        git_port: Port of the git server that the pods fetch their code from, at any address: policies know no host
            names. Default: they fetch none.
    """
    own_pods = [{"podSelector": {"matchLabels": labels}}]
    outside = [{"ports": [{"protocol": "TCP", "port": git_port}]}] if git_port else []
    scrapes = [_open_to_readers(metrics_ports)] if metrics_ports else []
    rules = {"ingress": [{"from": own_pods}, *scrapes], "egress": [{"to": own_pods}, *outside]}
    return _policy(name, namespace, labels, rules)


def service_network_policy_manifest(
    name: str, namespace: str, labels: dict[str, str], ports: Sequence[int], metrics_port: int
) -> Manifest:
    """Return the policy of a service: every pod of the cluster may call it, Prometheus reads it, it calls nobody."""
    called: Manifest = {"ports": _tcp(ports), "from": [{"namespaceSelector": {}}]}
    return _policy(name, namespace, labels, {"ingress": [called, _open_to_readers([metrics_port])]})


def _open_to_readers(ports: Sequence[int]) -> Manifest:
    return {"ports": _tcp(ports), "from": list(READERS)}


def _tcp(ports: Iterable[int]) -> list[Manifest]:
    # One by one: not every network plugin knows ranges.
    return [{"protocol": "TCP", "port": port} for port in ports]


def warn_without_network_policy(network: PodNetwork, workload: pulumi.Resource) -> None:
    """Say in the preview that the namespace's default-deny does not hold for a workload."""
    if without_network_policy(network):
        pulumi.log.warn(
            f"no NetworkPolicy reaches pods with network={type(network).__name__}: security groups alone separate them",
            workload,
        )
