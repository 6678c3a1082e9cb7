"""Prometheus as the operator's custom resource, its account, Service and network policy.

Source: prometheus-operator 0.93, Documentation/api-reference/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.images import PROMETHEUS_IMAGE
from infra.kubernetes.access import READ, rule
from infra.kubernetes.pods import resources
from infra.monitoring import (
    ALERTMANAGER,
    GRAFANA,
    METRICS_ADAPTER,
    NAMESPACE,
    PROMETHEUS,
    PROMETHEUS_PORT,
    WEB_PORT_NAME,
)
from infra.monitoring.console import CONSOLE, console_manifest
from infra.monitoring.console import FOLDER as CONSOLE_FOLDER
from infra.monitoring.disks import InstanceDisk, instance_disk
from infra.monitoring.operated import Operated
from infra.monitoring.parts import account, callers, grant, network_policy
from infra.versions import PROMETHEUS as VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings
    from infra.storage import Backing

OPERATED = Operated(kind="Prometheus", part=PROMETHEUS, version=VERSION, image=PROMETHEUS_IMAGE, port=PROMETHEUS_PORT)
NO_WEB_ORIGIN = "none"
"""A regular expression of origins that matches none: each has a scheme, or is `null`. By default any page that an
operator's browser shows may read all metrics through the port that he forwards."""
_KEPT_SHARE = 0.8
"""Share of the disk that blocks may take; the rest is room for the write-ahead log and for compaction."""
_SAMPLES_OF_A_QUERY = 50_000_000
"""Samples that one query may load: what a bigger one needs of memory would end the process."""


@dataclass(frozen=True, kw_only=True)
class PrometheusArgs:
    """Arguments of the objects of Prometheus."""

    settings: MonitoringSettings
    backing: Backing | None
    """Backing of the disk; None: nothing that outlives the pod."""
    namespaces: Sequence[str]
    """Namespaces of the targets."""


def prometheus_manifests(args: PrometheusArgs) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    disk = prometheus_disk(args)
    readers = (GRAFANA, PROMETHEUS, *([METRICS_ADAPTER] if args.settings.has_metrics_adapter else []))
    return {
        **permission_manifests(args.namespaces),
        f"{PROMETHEUS}-network": network_policy(PROMETHEUS, {PROMETHEUS_PORT: [callers(*readers)]}, [{}]),
        **({f"{PROMETHEUS}-volume": disk.volume} if disk.volume else {}),
        CONSOLE: console_manifest(),
        PROMETHEUS: prometheus_manifest(args.settings, disk),
        f"{PROMETHEUS}-service": OPERATED.service(),
    }


def prometheus_disk(args: PrometheusArgs) -> InstanceDisk:
    """Return where its samples are."""
    return instance_disk(PROMETHEUS, args.settings.storage, args.backing)


def permission_manifests(namespaces: Sequence[str]) -> dict[str, Manifest]:
    """Return the account, and what it may see: targets in the namespaces that have any, and metrics of nodes."""
    targets = [
        rule("core", "pods services", READ),
        rule("discovery.k8s.io", "endpointslices", READ),
    ]
    metrics = [
        rule("core", "nodes/metrics", ("get",)),
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    permissions = {"account": account(PROMETHEUS), **grant(PROMETHEUS, metrics)}
    for namespace in namespaces:
        permissions |= {
            f"{kind}-{namespace}": manifest for kind, manifest in grant(PROMETHEUS, targets, namespace).items()
        }
    return {f"{PROMETHEUS}-{kind.lower()}": manifest for kind, manifest in permissions.items()}


def prometheus_manifest(settings: MonitoringSettings, disk: InstanceDisk) -> Manifest:
    """Return the Prometheus object."""
    interval = f"{settings.scrape_interval_seconds}s"
    more: Manifest = {
        "automountServiceAccountToken": True,
        "volumes": [{"name": "console", "configMap": {"name": CONSOLE}}],
        "volumeMounts": [{"name": "console", "mountPath": CONSOLE_FOLDER, "readOnly": True}],
        "additionalArgs": [
            {"name": "web.console.templates", "value": CONSOLE_FOLDER},
            {"name": "web.cors.origin", "value": NO_WEB_ORIGIN},
        ],
        "scrapeInterval": interval,
        "evaluationInterval": interval,
        "retention": f"{settings.retention_days}d",
        "retentionSize": f"{int(settings.storage.size_gib * 1024 * _KEPT_SHARE)}MiB",
        # Of this namespace: a selector of namespaces that is left out selects the object's own.
        "serviceMonitorSelector": {},
        "podMonitorSelector": {},
        "probeSelector": {},
        "ruleSelector": {},
        "serviceDiscoveryRole": "EndpointSlice",
        "alerting": {
            "alertmanagers": [{"name": ALERTMANAGER, "namespace": NAMESPACE, "port": WEB_PORT_NAME, "apiVersion": "v2"}]
        },
        "enableAdminAPI": False,
        "query": {"maxSamples": _SAMPLES_OF_A_QUERY},
    }
    return OPERATED.manifest(settings.replicas, disk, resources("50m", "192Mi", settings.memory_limit), more)
