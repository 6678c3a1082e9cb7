"""Volcano as plain manifests: its scheduler, its controllers, their permissions and its configuration."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast

import yaml

from infra.errors import RefusalError
from infra.machine import cache_folder
from infra.versions import VOLCANO

if TYPE_CHECKING:
    from pathlib import Path

    from infra.manifests import Manifest
    from infra.settings.scheduling import QueueSettings

NAMESPACE = "volcano-system"
SCHEDULER = "volcano-scheduler"
CONTROLLERS = "volcano-controllers"
METRICS_PORT = 8080
HEALTH_PORT = 11251

# What the enabled controllers and the scheduler watch. The controller manager waits for every CRD of its enabled
# controllers and does nothing at all while one is missing, so the two lists below belong together. Naming the
# controllers, instead of excluding from `*`, keeps a new one of the next Volcano version from waiting for a CRD of its.
CRDS = (
    "batch.volcano.sh_jobs",
    "bus.volcano.sh_commands",
    "nodeinfo.volcano.sh_numatopologies",
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
    "topology.volcano.sh_hypernodes",
)
_CONTROLLERS = "job-controller,queue-controller,pg-controller,gc-controller,hyperNode-controller"

# Upstream's default actions are enqueue, allocate, backfill: without preempt and reclaim a high priority or another
# queue's share never takes anything back.
SCHEDULER_CONFIG: dict[str, Any] = {
    "actions": "enqueue, allocate, preempt, reclaim, backfill",
    "tiers": [
        {
            "plugins": [
                {"name": "priority"},
                {"name": "gang", "enablePreemptable": False},
                {"name": "conformance"},
            ]
        },
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {"name": "binpack"},
            ]
        },
    ],
}


def chart_folder() -> Path:
    """Return where `make tools` puts Volcano's own chart, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"volcano-{VOLCANO}"


def crd_manifests(chart: Path) -> dict[str, Manifest]:
    """Read the CRDs we install from upstream's chart, keyed by file name, without their descriptions.

    Descriptions are three quarters of their size and would sit in every state file and preview.

    Raises:
        RefusalError: the chart is not there.
    """
    manifests: dict[str, Manifest] = {}
    for name in CRDS:
        file = chart / "crd" / "bases" / f"{name}.yaml"
        if not file.is_file():
            raise RefusalError("Volcano chart", str(file), "does not exist", "run `make tools`, which fetches it")
        document = cast("Manifest", yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
        document["metadata"] = {"name": document["metadata"]["name"]}
        document.pop("status", None)
        manifests[name] = cast("Manifest", _without_descriptions(document))
    return manifests


def _without_descriptions(node: object) -> object:
    """Drop `description` texts of a schema; a property that is itself called description holds a dict and stays."""
    if isinstance(node, dict):
        entries = cast("dict[str, object]", node).items()
        return {
            key: _without_descriptions(value)
            for key, value in entries
            if not (key == "description" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_descriptions(item) for item in cast("list[object]", node)]
    return node


def _rule(groups: str, resources: str, verbs: str) -> Manifest:
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }


_READ = "get list watch"
SCHEDULER_RULES: list[Manifest] = [
    _rule("core", "pods", f"{_READ} patch delete"),
    _rule("core", "pods/status", "update patch"),
    _rule("core", "pods/binding", "create"),
    _rule("core", "events", "create list watch update patch"),
    _rule("events.k8s.io", "events", "create update patch"),
    _rule("core", "persistentvolumeclaims persistentvolumes", f"{_READ} update patch"),
    _rule("core", "namespaces services replicationcontrollers resourcequotas", _READ),
    _rule("core", "nodes", f"{_READ} update patch"),
    _rule("core", "configmaps", f"{_READ} create update delete"),
    _rule("apps", "daemonsets replicasets statefulsets", _READ),
    _rule("policy", "poddisruptionbudgets", _READ),
    _rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", _READ),
    _rule("scheduling.k8s.io", "priorityclasses", _READ),
    _rule("resource.k8s.io", "resourceclaims", f"{_READ} create update patch"),
    _rule("resource.k8s.io", "resourceclaims/status", "update patch"),
    _rule("resource.k8s.io", "deviceclasses resourceslices devicetaintrules", _READ),
    _rule("coordination.k8s.io", "leases", "get create update watch"),
    _rule("batch.volcano.sh", "jobs", f"{_READ} update delete"),
    _rule("batch.volcano.sh", "jobs/status", "update patch"),
    _rule("scheduling.volcano.sh", "queues", f"{_READ} create update delete"),
    _rule("scheduling.volcano.sh", "queues/status podgroups/status", "update patch"),
    _rule("scheduling.volcano.sh", "podgroups", f"{_READ} update"),
    _rule("nodeinfo.volcano.sh", "numatopologies", f"{_READ} delete"),
    _rule("topology.volcano.sh", "hypernodes hypernodes/status", _READ),
]
CONTROLLER_RULES: list[Manifest] = [
    _rule("core", "pods", f"{_READ} create update patch delete"),
    _rule("core", "pods/finalizers", "update patch"),
    _rule("core", "events", "create list watch update patch"),
    _rule("core", "persistentvolumeclaims", f"{_READ} create"),
    _rule("core", "services", f"{_READ} create delete"),
    _rule("core", "configmaps secrets", f"{_READ} create update delete"),
    _rule("core", "nodes", _READ),
    _rule("core", "namespaces", _READ),
    _rule("apps", "daemonsets replicasets statefulsets", _READ),
    _rule("batch", "jobs", _READ),
    _rule("networking.k8s.io", "networkpolicies", "get create delete"),
    _rule("scheduling.k8s.io", "priorityclasses", _READ),
    _rule("coordination.k8s.io", "leases", "get create update watch"),
    _rule("batch.volcano.sh", "jobs", f"{_READ} update delete"),
    _rule("batch.volcano.sh", "jobs/status jobs/finalizers", "update patch"),
    _rule("bus.volcano.sh", "commands", f"{_READ} delete"),
    _rule("scheduling.volcano.sh", "podgroups queues", f"{_READ} create update patch delete"),
    _rule("scheduling.volcano.sh", "podgroups/status queues/status podgroups/finalizers", "update patch"),
    _rule("topology.volcano.sh", "hypernodes", f"{_READ} create update patch delete"),
    _rule("topology.volcano.sh", "hypernodes/status", "update patch"),
]


def permission_manifests(account: str, rules: list[Manifest]) -> list[Manifest]:
    """Return the ServiceAccount, ClusterRole and ClusterRoleBinding of one of Volcano's parts."""
    role_reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": account},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": account},
            "subjects": [subject],
            "roleRef": role_reference,
        },
    ]


def scheduler_config_text(*, nodes_scale: bool = False) -> str:
    """Return the scheduler's configuration file.

    Args:
        nodes_scale: Whether nodes come when pods wait for them. Volcano's `enqueue` lets a job have pods only once the
            nodes that are there could take it; an autoscaler, which looks at pods, would never see it. Without the
            action every job may have its pods at once (Volcano's allocate action).
    """
    actions = SCHEDULER_CONFIG["actions"].removeprefix("enqueue, ") if nodes_scale else SCHEDULER_CONFIG["actions"]
    return yaml.safe_dump({**SCHEDULER_CONFIG, "actions": actions}, sort_keys=False)


def scheduler_config_manifest(config: str) -> Manifest:
    """Return the ConfigMap of the scheduler's configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{SCHEDULER}-config", "namespace": NAMESPACE},
        "data": {"volcano-scheduler.conf": config},
    }


def scheduler_manifest(image: str, config: str) -> Manifest:
    """Return the scheduler's Deployment; a changed configuration changes the pod template, so the pod restarts."""
    args = ["--scheduler-conf=/etc/volcano/volcano-scheduler.conf", "--schedule-period=500ms"]
    manifest = _deployment(SCHEDULER, image, args)
    template = manifest["spec"]["template"]
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    template["metadata"]["annotations"] = {"athanor.dev/config": digest}
    template["spec"]["volumes"].append({"name": "config", "configMap": {"name": f"{SCHEDULER}-config"}})
    template["spec"]["containers"][0]["volumeMounts"].append(
        {"name": "config", "mountPath": "/etc/volcano", "readOnly": True}
    )
    return manifest


def controllers_manifest(image: str) -> Manifest:
    """Return the controller manager's Deployment."""
    args = [f"--controllers={_CONTROLLERS}"]
    return _deployment(CONTROLLERS, image, args)


def _deployment(name: str, image: str, args: list[str]) -> Manifest:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "volcano"}
    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "--logtostderr",
            # One replica, replaced by Recreate: an election would only delay the first schedule by seconds.
            "--leader-elect=false",
            "--enable-healthz=true",
            f"--healthz-address=:{HEALTH_PORT}",
            "--enable-metrics=true",
            f"--listen-address=:{METRICS_PORT}",
            "-v=2",
            *args,
        ],
        # The process logs through a socket folder below /tmp; a read-only root would stop it at once.
        "env": [{"name": "DEBUG_SOCKET_DIR", "value": "/tmp/klog-socks"}],  # noqa: S108 - inside the container
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": HEALTH_PORT}, "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp/klog-socks"}],  # noqa: S108 - inside the container
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": name,
                    "priorityClassName": "system-cluster-critical",
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }


def queue_manifest(queue: QueueSettings) -> Manifest:
    """Return a Volcano Queue."""
    spec: Manifest = {"weight": queue.weight, "reclaimable": queue.reclaimable}
    if queue.capability:
        spec["capability"] = queue.capability
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": queue.name},
        "spec": spec,
    }
