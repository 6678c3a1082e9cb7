"""Network policies of workloads: each opens only its own ports in a namespace that is closed by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

from infra.pod_network import without_network_policy

if TYPE_CHECKING:
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
    name: str, namespace: str, labels: dict[str, str], metrics_port: int, git_port: int | None = None
) -> Manifest:
    """Return the policy of a job: its own pods reach each other on any port, anyone may scrape its metrics.

    Args:
        name: Name of the policy.
        namespace: Where the job runs.
        labels: Labels that all pods of the job and no other pods carry.
        metrics_port: Port that the whole cluster may reach.
        git_port: Port of the git server that the pods fetch their code from, at any address: policies know no host
            names. Default: they fetch none.
    """
    own_pods = [{"podSelector": {"matchLabels": labels}}]
    outside = [{"ports": [{"protocol": "TCP", "port": git_port}]}] if git_port else []
    rules = {"ingress": [{"from": own_pods}, _open_to_cluster([metrics_port])], "egress": [{"to": own_pods}, *outside]}
    return _policy(name, namespace, labels, rules)


def service_network_policy_manifest(name: str, namespace: str, labels: dict[str, str], ports: list[int]) -> Manifest:
    """Return the policy of a service: every pod of the cluster may call its ports, it calls nobody."""
    return _policy(name, namespace, labels, {"ingress": [_open_to_cluster(ports)]})


def _open_to_cluster(ports: list[int]) -> Manifest:
    every_namespace: Manifest = {"namespaceSelector": {}}
    return {"ports": [{"protocol": "TCP", "port": port} for port in ports], "from": [every_namespace]}


def warn_without_network_policy(network: PodNetwork, workload: pulumi.Resource) -> None:
    """Say in the preview that the namespace's default-deny does not hold for a workload."""
    if without_network_policy(network):
        pulumi.log.warn(
            f"no NetworkPolicy reaches pods with network={type(network).__name__}: security groups alone separate them",
            workload,
        )
