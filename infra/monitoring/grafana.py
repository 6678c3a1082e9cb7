"""Grafana with our dashboards, and without any password unless the settings name a Secret that holds one.

Changes that people make there are not kept: dashboards are code. Source: Grafana 12, docs "Configure Grafana" and
"Provision Grafana". No test starts it: its image is not available without a registry, and it cannot be built
(docs/operator.md).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from infra.images import GRAFANA_IMAGE
from infra.kubernetes.parts import PART_OF
from infra.kubernetes.pods import container_security, pod_security, resources
from infra.monitoring import (
    GRAFANA,
    GRAFANA_PORT,
    NAMESPACE,
    PROMETHEUS,
    WEB_PORT_NAME,
    alertmanager,
    prometheus,
)
from infra.monitoring.parts import account, deployment, metadata, network_policy, service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings

URL = f"http://{GRAFANA}.{NAMESPACE}.svc:{GRAFANA_PORT}"
"""Its address inside the cluster."""
DASHBOARD_LABEL = {"grafana_dashboard": "1"}
"""Label by which Grafana's sidecar in kube-prometheus-stack finds dashboards."""
_USER = 472
"""User id of upstream's image."""
_CONFIG = f"{GRAFANA}-config"
_PROVISIONING = "/etc/athanor/provisioning"
_DASHBOARDS = "/etc/athanor/dashboards"
_QUIET = {
    "GF_ANALYTICS_REPORTING_ENABLED": "false",
    "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
    "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
    "GF_NEWS_NEWS_FEED_ENABLED": "false",
    "GF_PLUGINS_PLUGIN_ADMIN_ENABLED": "false",
    "GF_PLUGINS_PREINSTALL_DISABLED": "true",
    "GF_SECURITY_DISABLE_GRAVATAR": "true",
    "GF_SNAPSHOTS_EXTERNAL_ENABLED": "false",
    "GF_USERS_ALLOW_SIGN_UP": "false",
}
"""It talks to nobody outside the cluster."""
_NOBODY_LOGS_IN = {
    # There is no account at all, hence no password: not the well-known one, and none that anybody has to keep.
    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
    "GF_AUTH_DISABLE_LOGIN_FORM": "true",
    "GF_AUTH_BASIC_ENABLED": "false",
    "GF_AUTH_ANONYMOUS_ENABLED": "true",
    "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
}


def dashboard_manifests(
    dashboards: Mapping[str, Mapping[str, Any]], namespace: str, labels: Mapping[str, str]
) -> dict[str, Manifest]:
    """Return a ConfigMap for each dashboard, by logical name: all in one would be too large for the API server."""
    return {
        dashboard_name(uid): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": dashboard_name(uid),
                "namespace": namespace,
                "labels": {**PART_OF, **DASHBOARD_LABEL, **labels},
            },
            "data": {f"{uid}.json": json.dumps(dashboard, sort_keys=True)},
        }
        for uid, dashboard in dashboards.items()
    }


def dashboard_name(uid: str) -> str:
    """Return the name of a dashboard's ConfigMap."""
    return f"dashboard-{uid}"


def grafana_manifests(settings: MonitoringSettings, uids: list[str]) -> dict[str, Manifest]:
    """Return all objects by logical name, in order, but the dashboards' ConfigMaps, which must be there before them."""
    config = provisioning_files(settings)
    return {
        f"{GRAFANA}-account": account(GRAFANA),
        # People come in through the kubelet (`kubectl port-forward`); a gateway needs a policy of its own.
        f"{GRAFANA}-network": network_policy(GRAFANA, {}, [_to_namespace()]),
        _CONFIG: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(_CONFIG, part=GRAFANA), "data": config},
        GRAFANA: _deployment(settings, uids, config),
        f"{GRAFANA}-service": service(GRAFANA, WEB_PORT_NAME, GRAFANA_PORT),
    }


def provisioning_files(settings: MonitoringSettings) -> dict[str, str]:
    """Return the files that Grafana reads at its start, by name. JSON is YAML."""
    metrics = {
        "name": "Prometheus",
        "uid": PROMETHEUS,
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus.OPERATED.url,
        "isDefault": True,
        "jsonData": {"httpMethod": "POST", "timeInterval": f"{settings.scrape_interval_seconds}s"},
    }
    alerts = {
        "name": "Alertmanager",
        "uid": "alertmanager",
        "type": "alertmanager",
        "access": "proxy",
        "url": alertmanager.OPERATED.url,
        "jsonData": {"implementation": "prometheus"},
    }
    provider = {"name": "athanor", "folder": "Athanor", "type": "file", "options": {"path": _DASHBOARDS}}
    return {
        "datasources.yaml": json.dumps({"apiVersion": 1, "datasources": [metrics, alerts]}),
        "dashboards.yaml": json.dumps({"apiVersion": 1, "providers": [provider]}),
    }


def environment(settings: MonitoringSettings) -> list[Manifest]:
    """Return Grafana's variables: who logs in, if anybody, and that it calls nobody."""
    secret = settings.grafana_admin_secret
    plain = {"GF_PATHS_PROVISIONING": _PROVISIONING, "GF_LOG_MODE": "console", **_QUIET}
    if secret is None:
        plain |= _NOBODY_LOGS_IN
    variables: list[Manifest] = [{"name": name, "value": value} for name, value in plain.items()]
    if secret:
        variables += [
            {"name": f"GF_SECURITY_ADMIN_{key.upper()}", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for key in ("user", "password")
        ]
    return variables


def _to_namespace() -> Manifest:
    """Prometheus, Alertmanager and the logs are all there."""
    return {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}]}


def _deployment(settings: MonitoringSettings, uids: list[str], config: dict[str, str]) -> Manifest:
    container = {
        "name": GRAFANA,
        "image": GRAFANA_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": environment(settings),
        "ports": [{"name": WEB_PORT_NAME, "containerPort": GRAFANA_PORT}],
        "readinessProbe": {"httpGet": {"path": "/api/health", "port": WEB_PORT_NAME}, "periodSeconds": 5},
        "resources": resources("50m", "128Mi", "512Mi"),
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/grafana"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            {"name": "provisioning", "mountPath": _PROVISIONING, "readOnly": True},
            {"name": "dashboards", "mountPath": _DASHBOARDS, "readOnly": True},
        ],
    }
    sources = [{"configMap": {"name": dashboard_name(uid)}} for uid in uids]
    items = [{"key": f"{kind}.yaml", "path": f"{kind}/{kind}.yaml"} for kind in ("datasources", "dashboards")]
    pod: Manifest = {
        "serviceAccountName": GRAFANA,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(_USER),
        "containers": [container],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "provisioning", "configMap": {"name": _CONFIG, "items": items}},
            {"name": "dashboards", "projected": {"sources": sources}},
        ],
    }
    # It reads changed dashboards by itself, but its data sources only at the start.
    digest = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    return deployment(GRAFANA, pod, {"athanor.dev/config": digest})
