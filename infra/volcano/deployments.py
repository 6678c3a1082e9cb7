"""Volcano's scheduler and its controllers, as Deployments of one pod each."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from infra.kubernetes.controllers import ONE_AT_MOST, PodTemplate, deployment_manifest
from infra.kubernetes.pods import container_security, resources
from infra.volcano import CONTROLLERS, NAMESPACE, SCHEDULER
from infra.volcano.configuration import CONFIG_FILE
from infra.volcano.crds import CONTROLLERS_ENABLED

if TYPE_CHECKING:
    from infra.manifests import Manifest

VOLCANO_METRICS_PORT = 8080
HEALTH_PORT = 11251


def scheduler_manifest(image: str, config: str) -> Manifest:
    """Return the scheduler's Deployment; a changed configuration changes the pod template, so the pod restarts."""
    args = [f"--scheduler-conf=/etc/volcano/{CONFIG_FILE}", "--schedule-period=500ms"]
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
    args = [
        f"--controllers={CONTROLLERS_ENABLED}",
        # Each pod of a job is a request of theirs, and a restart of a job creates all of them again. Upstream's 50 a
        # second are minutes for a thousand pods; the scheduler's own limit is 2000. The API server guards itself
        # (priority and fairness).
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    ]
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
            f"--listen-address=:{VOLCANO_METRICS_PORT}",
            "-v=2",
            *args,
        ],
        # The process logs through a socket folder below /tmp; a read-only root would stop it at once.
        "env": [{"name": "DEBUG_SOCKET_DIR", "value": "/tmp/klog-socks"}],  # noqa: S108 - inside the container
        "ports": [{"name": "metrics", "containerPort": VOLCANO_METRICS_PORT}],
        # At rest 60 MiB; with a thousand nodes and five thousand pods the scheduler was seen at 640.
        "resources": resources("50m", "64Mi", "4Gi"),
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": HEALTH_PORT}, "periodSeconds": 2},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp/klog-socks"}],  # noqa: S108 - inside the container
    }
    pod: Manifest = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    pods = PodTemplate(selector={"app.kubernetes.io/name": name}, labels=labels, spec=pod)
    return deployment_manifest({"name": name, "namespace": NAMESPACE, "labels": labels}, pods, ONE_AT_MOST)
