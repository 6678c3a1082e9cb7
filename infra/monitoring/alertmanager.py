"""Alertmanager as the operator's custom resource, its Service, network policy and the configuration it starts with.

Source: prometheus-operator 0.93, Documentation/api-reference/api.md; prometheus.io/docs/alerting/latest/configuration.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infra.images import ALERTMANAGER_IMAGE
from infra.monitoring import ALERTMANAGER, ALERTMANAGER_PORT, GRAFANA, INSTANCE, NAMESPACE, PROMETHEUS, WEB_PORT_NAME
from infra.monitoring.disks import InstanceDisk, instance_disk
from infra.monitoring.parts import (
    account,
    callers,
    labels,
    metadata,
    network_policy,
    operated_container,
    pod_security,
    reloader,
    resources,
    service,
)
from infra.monitoring.prometheus import apart
from infra.versions import ALERTMANAGER as VERSION

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings
    from infra.storage import Backing

URL = f"http://{ALERTMANAGER}.{NAMESPACE}.svc:{ALERTMANAGER_PORT}"
"""Where it answers inside the cluster."""
SELECTOR = {"app.kubernetes.io/name": ALERTMANAGER, "app.kubernetes.io/instance": INSTANCE}
"""Labels that the operator gives its pods."""
CONFIG_SECRET = "alertmanager-config"  # noqa: S105 - a name
_MESH_PORT = 9094
"""Between copies, so that each alert is sent once."""
_QUIET = {
    "route": {"receiver": "nobody", "group_by": ["alertname", "namespace", "workload"]},
    "receivers": [{"name": "nobody"}],
}
"""Alerts are shown and told to nobody, until settings name a configuration."""


def alertmanager_manifests(settings: MonitoringSettings, backing: Backing | None) -> dict[str, Manifest]:
    """Return all objects by logical name, in order. `backing`: what holds the disk; None: nothing outlives the pod."""
    disk = instance_disk(ALERTMANAGER, settings.alertmanager_storage, backing)
    return {
        f"{ALERTMANAGER}-account": account(ALERTMANAGER),
        f"{ALERTMANAGER}-network": _network(settings),
        **({f"{ALERTMANAGER}-volume": disk.volume} if disk.volume else {}),
        **({} if settings.alertmanager_config_secret else {f"{ALERTMANAGER}-config": quiet_config_manifest()}),
        ALERTMANAGER: alertmanager_manifest(settings, disk),
        f"{ALERTMANAGER}-service": service(ALERTMANAGER, WEB_PORT_NAME, ALERTMANAGER_PORT, SELECTOR),
    }


def quiet_config_manifest() -> Manifest:
    """Return the Secret with the configuration that tells nobody. There is nothing secret in it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(CONFIG_SECRET, part=ALERTMANAGER),
        "stringData": {"alertmanager.yaml": json.dumps(_QUIET)},
    }


def _network(settings: MonitoringSettings) -> Manifest:
    mesh = callers(ALERTMANAGER)
    ingress = {ALERTMANAGER_PORT: [callers(GRAFANA, PROMETHEUS)], _MESH_PORT: [mesh]}
    # Whom it tells is anywhere: a mail server, a chat, a pager.
    egress: list[Manifest] = [{}] if settings.alertmanager_config_secret else [{"to": [mesh]}]
    return network_policy(ALERTMANAGER, ingress, egress)


def alertmanager_manifest(settings: MonitoringSettings, disk: InstanceDisk) -> Manifest:
    """Return the Alertmanager object."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Alertmanager",
        "metadata": metadata(INSTANCE, part=ALERTMANAGER),
        "spec": {
            "version": f"v{VERSION}",
            "replicas": settings.replicas,
            "podMetadata": {"labels": labels(ALERTMANAGER)},
            "serviceAccountName": ALERTMANAGER,
            # It asks the API server for nothing.
            "automountServiceAccountToken": False,
            "initContainers": [reloader("init-config-reloader")],
            "containers": [
                operated_container(ALERTMANAGER, ALERTMANAGER_IMAGE, resources("10m", "32Mi", "256Mi")),
                reloader("config-reloader"),
            ],
            "configSecret": settings.alertmanager_config_secret or CONFIG_SECRET,
            "externalUrl": URL,
            "retention": "120h",
            "storage": disk.storage,
            "securityContext": pod_security(),
            "affinity": apart(SELECTOR),
        },
    }
