"""Alertmanager as the operator's custom resource, its Service, network policy and the configuration it starts with.

Source: prometheus-operator 0.93, Documentation/api-reference/api.md; prometheus.io/docs/alerting/latest/configuration.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infra.closed_addresses import ANYWHERE
from infra.images import ALERTMANAGER_IMAGE
from infra.kubernetes.pods import resources
from infra.monitoring import ALERTMANAGER, ALERTMANAGER_PORT, GRAFANA, PROMETHEUS
from infra.monitoring.disks import InstanceDisk, instance_disk
from infra.monitoring.operated import Operated
from infra.monitoring.parts import account, callers, metadata, network_policy
from infra.monitoring.rules.training import RUN_ENDS
from infra.versions import ALERTMANAGER as VERSION

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings, RunWebhook
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
_NOBODY = "nobody"
SECRETS_FOLDER = "/etc/alertmanager/secrets"
"""Folder in which the operator mounts the Secrets that the Alertmanager object names, each in a folder of its own."""
_NEVER_AGAIN = "120h"
"""Longer than an alert of an ended job fires, so that each end is notified once."""


def alertmanager_manifests(settings: MonitoringSettings, backing: Backing | None) -> dict[str, Manifest]:
    """Return all objects by logical name, in order. `backing`: what holds the disk; None: nothing outlives the pod."""
    disk = instance_disk(ALERTMANAGER, settings.alertmanager_storage, backing)
    return {
        f"{ALERTMANAGER}-account": account(ALERTMANAGER),
        f"{ALERTMANAGER}-network": _network(settings),
        **({f"{ALERTMANAGER}-volume": disk.volume} if disk.volume else {}),
        **({} if settings.alertmanager_config_secret else {f"{ALERTMANAGER}-config": config_manifest(settings)}),
        ALERTMANAGER: alertmanager_manifest(settings, disk),
        f"{ALERTMANAGER}-service": OPERATED.service(),
    }


def config_manifest(settings: MonitoringSettings) -> Manifest:
    """Return the Secret with the configuration. There is nothing secret in it: addresses are in files."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(CONFIG_SECRET, part=ALERTMANAGER),
        "stringData": {"alertmanager.yaml": json.dumps(configuration(settings))},
    }


def configuration(settings: MonitoringSettings) -> Manifest:
    """Return Alertmanager's configuration: alerts are displayed, and the ends of jobs go to the webhooks."""
    names = [f"runs-{number}" for number in range(len(settings.run_webhooks))]
    routes = [_route(name, webhook) for name, webhook in zip(names, settings.run_webhooks, strict=True)]
    receivers = [_receiver(name, webhook) for name, webhook in zip(names, settings.run_webhooks, strict=True)]
    route = {"receiver": _NOBODY, "group_by": ["alertname", "namespace", "workload"]}
    return {
        "route": {**route, "routes": routes} if routes else route,
        "receivers": [{"name": _NOBODY}, *receivers],
    }


def _route(name: str, webhook: RunWebhook) -> Manifest:
    ends = f'alertname=~"{"|".join(RUN_ENDS)}"'
    return {
        "receiver": name,
        "matchers": [ends, *([f'queue="{webhook.queue}"'] if webhook.queue else [])],
        "group_wait": "1s",
        "repeat_interval": _NEVER_AGAIN,
        "continue": True,
    }


def _receiver(name: str, webhook: RunWebhook) -> Manifest:
    address = {"url_file": f"{SECRETS_FOLDER}/{webhook.secret}/url", "send_resolved": False}
    return {"name": name, "webhook_configs": [address]}


def _network(settings: MonitoringSettings) -> Manifest:
    mesh = callers(ALERTMANAGER)
    ingress = {ALERTMANAGER_PORT: [callers(GRAFANA, PROMETHEUS)], _MESH_PORT: [mesh]}
    # Receivers can be anywhere: a mail server, a chat, a pager.
    notifies = settings.alertmanager_config_secret or settings.run_webhooks
    egress: list[Manifest] = [{"to": ANYWHERE}] if notifies else [{"to": [mesh]}]
    return network_policy(ALERTMANAGER, ingress, egress)


def alertmanager_manifest(settings: MonitoringSettings, disk: InstanceDisk) -> Manifest:
    """Return the Alertmanager object."""
    secrets = list(dict.fromkeys(webhook.secret for webhook in settings.run_webhooks))
    more: Manifest = {
        # It asks the API server for nothing.
        "automountServiceAccountToken": False,
        "configSecret": settings.alertmanager_config_secret or CONFIG_SECRET,
        "retention": "120h",
        **({"secrets": secrets} if secrets else {}),
    }
    return OPERATED.manifest(settings.replicas, disk, resources("10m", "32Mi", "256Mi"), more)
