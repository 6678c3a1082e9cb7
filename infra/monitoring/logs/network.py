"""Network policies of the logs: collectors write, Prometheus and Grafana read, all others are denied.

People connect by `kubectl port-forward`, through the kubelet of the pod's node, which no policy blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.closed_addresses import ANYWHERE
from infra.monitoring import (
    GRAFANA,
    NAMESPACE,
    NODE_NAMESPACE,
    PROMETHEUS,
    VICTORIA_LOGS,
    VICTORIA_LOGS_PORT,
    VLAGENT,
    VLAGENT_PORT,
)
from infra.namespaces import default_deny_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest


def _pods(namespace: str, *names: str) -> Manifest:
    names_of_pods = {"key": "app.kubernetes.io/name", "operator": "In", "values": list(names)}
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchExpressions": [names_of_pods]},
    }


def _policy(name: str, namespace: str, ingress: list[Manifest], egress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _ports(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def network_manifests(readers: Sequence[str]) -> dict[str, Manifest]:
    """Return the policies of store and collector. `readers`: namespaces with a Prometheus or Grafana that comes in."""
    writer = _pods(NODE_NAMESPACE, VLAGENT)
    store_readers = [_pods(namespace, PROMETHEUS, GRAFANA) for namespace in readers]
    scrapers = [_pods(namespace, PROMETHEUS) for namespace in readers]
    into_store = [{"from": [writer, *store_readers], "ports": _ports(VICTORIA_LOGS_PORT)}]
    into_collector = [{"from": scrapers, "ports": _ports(VLAGENT_PORT)}]
    out_of_collector: list[Manifest] = [
        {"to": [_pods(NAMESPACE, VICTORIA_LOGS)], "ports": _ports(VICTORIA_LOGS_PORT)},
        # The API server's Service, or what stands behind it: nodes, too, which for some networks are in no ipBlock.
        {"to": ANYWHERE, "ports": _ports(443)},
        {"ports": _ports(6443)},
        *default_deny_manifest(NODE_NAMESPACE)["spec"]["egress"],  # the look-up of the store's name
    ]
    return {
        f"{VICTORIA_LOGS}-network": _policy(VICTORIA_LOGS, NAMESPACE, into_store, []),
        f"{VLAGENT}-network": _policy(VLAGENT, NODE_NAMESPACE, into_collector, out_of_collector),
    }
