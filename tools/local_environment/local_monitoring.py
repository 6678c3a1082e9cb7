"""The monitoring of the local stack: its images, and the addresses of metrics, alerts and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring import (
    ALERTMANAGER,
    ALERTMANAGER_PORT,
    GRAFANA,
    GRAFANA_PORT,
    NAMESPACE,
    NODE_NAMESPACE,
    PROMETHEUS,
    PROMETHEUS_PORT,
    VICTORIA_LOGS,
    VICTORIA_LOGS_PORT,
    console,
    logs,
)
from tools.images.platform_images import ADAPTER, MONITORING_IMAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.stack import Settings
    from tools.kubectl import Kubectl

VOLUMES = (PROMETHEUS, ALERTMANAGER, logs.CLAIM)
"""Volumes in folders of the node."""


def images(settings: Settings) -> Sequence[str]:
    """Return the images that the local node needs for it, by the names of their binaries."""
    if settings.monitoring.kind == "none":
        return ()
    return (*MONITORING_IMAGES, ADAPTER) if settings.monitoring.has_metrics_adapter else MONITORING_IMAGES


def namespaces(settings: Settings) -> Sequence[str]:
    """Return the namespaces of its pods."""
    return (NAMESPACE, NODE_NAMESPACE) if settings.monitoring.kind != "none" else ()


def address_rows(settings: Settings, kubectl: Kubectl) -> list[list[str]]:
    """Return the subject of each page, and its address or, on another cluster, the command that forwards it."""
    pages = _pages(settings)
    if not settings.runs_on_own_local_cluster:
        return [
            [what, f"kubectl port-forward -n {NAMESPACE} service/{service} {port}"]
            for what, (service, port, _) in pages.items()
        ]
    # This machine has a route to the Services of its own cluster.
    addresses = {item["metadata"]["name"]: item["spec"]["clusterIP"] for item in kubectl.items("services", NAMESPACE)}
    return [
        [what, f"http://{addresses[service]}:{port}{path}"]
        for what, (service, port, path) in pages.items()
        if service in addresses
    ]


def _pages(settings: Settings) -> dict[str, tuple[str, int, str]]:
    """Return Service, port and path of each page by what it shows."""
    own, keeps_logs = settings.monitoring.kind == "operator", settings.monitoring.logs.kind == "victoria_logs"
    pages: dict[str, tuple[str, int, str]] = {}
    if own:
        # Neither has its web interface here: that is not part of the Go module that it is built from.
        pages["metrics"] = (PROMETHEUS, PROMETHEUS_PORT, console.PATH)
        pages["alerts"] = (ALERTMANAGER, ALERTMANAGER_PORT, "/api/v2/alerts")
    if own and settings.monitoring.grafana:
        pages["dashboards"] = (GRAFANA, GRAFANA_PORT, "")
    if keeps_logs and settings.monitoring.kind != "none":
        pages["logs"] = (VICTORIA_LOGS, VICTORIA_LOGS_PORT, "/select/vmui")
    return pages
