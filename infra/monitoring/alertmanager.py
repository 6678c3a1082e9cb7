"""Alertmanager as the operator's custom resource, its Service, network policy and the configuration it starts with.

Source: prometheus-operator 0.93, Documentation/api-reference/api.md; prometheus.io/docs/alerting/latest/configuration.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infra.images import ALERTMANAGER_IMAGE
from infra.kubernetes.pods import resources
from infra.monitoring import ALERTMANAGER, ALERTMANAGER_PORT, GRAFANA, PROMETHEUS
from infra.monitoring.disks import InstanceDisk, instance_disk
from infra.monitoring.operated import Operated
from infra.monitoring.parts import account, callers, metadata, network_policy
from infra.versions import ALERTMANAGER as VERSION

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings
    from infra.storage import Backing

OPERATED = Operated(
    kind="Alertmanager",
    part=ALERTMANAGER,
    version=VERSION,
    image=ALERTMANAGER_IMAGE,
    port=ALERTMANAGER_PORT,
)
CONFIG_SECRET = "alertmanager-config"  # noqa: S105 - a name
_MESH_PORT = 9094
"""Between copies, so that each alert is sent once."""
_QUIET = {
    "route": {"receiver": "nobody", "group_by": ["alertname", "namespace", "workload"]},
    "receivers": [{"name": "nobody"}],
}
"""Alerts are displayed but nobody is notified, until settings name a configuration."""


def alertmanager_manifests(settings: MonitoringSettings, backing: Backing | None) -> dict[str, Manifest]:
    """Return all objects by logical name, in order. `backing`: what holds the disk; None: nothing outlives the pod."""
    disk = instance_disk(ALERTMANAGER, settings.alertmanager_storage, backing)
    return {
        f"{ALERTMANAGER}-account": account(ALERTMANAGER),
        f"{ALERTMANAGER}-network": _network(settings),
        **({f"{ALERTMANAGER}-volume": disk.volume} if disk.volume else {}),
        **({} if settings.alertmanager_config_secret else {f"{ALERTMANAGER}-config": quiet_config_manifest()}),
        ALERTMANAGER: alertmanager_manifest(settings, disk),
        f"{ALERTMANAGER}-service": OPERATED.service(),
    }


def quiet_config_manifest() -> Manifest:
    """Return the Secret with the configuration that notifies nobody. There is nothing secret in it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(CONFIG_SECRET, part=ALERTMANAGER),
        "stringData": {"alertmanager.yaml": json.dumps(_QUIET)},
    }


def _network(settings: MonitoringSettings) -> Manifest:
    mesh = callers(ALERTMANAGER)
    ingress = {ALERTMANAGER_PORT: [callers(GRAFANA, PROMETHEUS)], _MESH_PORT: [mesh]}
    # Receivers can be anywhere: a mail server, a chat, a pager.
    egress: list[Manifest] = [{}] if settings.alertmanager_config_secret else [{"to": [mesh]}]
    return network_policy(ALERTMANAGER, ingress, egress)


def alertmanager_manifest(settings: MonitoringSettings, disk: InstanceDisk) -> Manifest:
    """Return the Alertmanager object."""
    more: Manifest = {
        # It asks the API server for nothing.
        "automountServiceAccountToken": False,
        "configSecret": settings.alertmanager_config_secret or CONFIG_SECRET,
        "retention": "120h",
    }
    return OPERATED.manifest(settings.replicas, disk, resources("10m", "32Mi", "256Mi"), more)
