"""All objects of the logs, from the settings.

People connect by `kubectl port-forward`, through the kubelet of the pod's node, which no policy blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from infra.monitoring.logs.collector import collector_manifest, permission_manifests
from infra.monitoring.logs.store import disk_manifests, store_manifest, store_service_manifest
from infra.namespaces import default_deny_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest
    from infra.settings.monitoring import LogSettings
    from infra.storage import Backing


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


@dataclass(frozen=True, kw_only=True)
class LogArgs:
    """Arguments of the objects of the logs."""

    settings: LogSettings
    backing: Backing | None
    """Backing of the store's disk: `NodeFolders` on the cluster of `make up`, else `ClassVolumes`. None: nothing that
    outlives the store's pod."""
    readers: Sequence[str] = (NAMESPACE,)
    """Namespaces of the Prometheus and the Grafana that may come in."""


def log_manifests(args: LogArgs) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other; none unless kind victoria_logs.

    Their namespaces, NAMESPACE and NODE_NAMESPACE, must be there before them.
    """
    if args.settings.kind != "victoria_logs":
        return {}
    disk = disk_manifests(args.settings, args.backing) if args.backing else {}
    return {
        **network_manifests(args.readers),
        **disk,
        f"{VICTORIA_LOGS}-service": store_service_manifest(),
        VICTORIA_LOGS: store_manifest(args.settings, claimed=args.backing is not None),
        **permission_manifests(),
        VLAGENT: collector_manifest(),
    }
