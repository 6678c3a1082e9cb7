"""The collector of logs: vlagent on every node, which follows the files that the container runtime writes.

Source of the flags and of the rights it needs: VictoriaLogs 1.43.1, docs/victorialogs/vlagent.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import VLAGENT_IMAGE
from infra.monitoring import METRICS_PORT_NAME, NODE_NAMESPACE, PART_OF, VLAGENT, VLAGENT_PORT
from infra.monitoring.logs import MESSAGE_FIELD, TIME_FIELD
from infra.monitoring.logs.store import URL

if TYPE_CHECKING:
    from infra.manifests import Manifest

LABELS = {"app.kubernetes.io/name": VLAGENT, **PART_OF}
NODE_FOLDER = "/var/lib/athanor/vlagent"
"""Folder of every node: how far each file was read, and lines that the store could not take yet."""
LINKS, FILES = "/var/log/containers", "/var/log/pods"
"""Folders of every node: links named by pod, namespace and container, and the files that they lead to."""
_FOLDER = "/var/lib/vlagent"
_QUEUE = "2GiB"
"""What a node keeps while the store is away, in files of half a GiB; then the oldest lines go."""
_NO_FIELD = "athanor.dev/none"
_REAL_NODES = [
    {"key": "athanor.dev/simulated", "operator": "DoesNotExist"},
    # Pods there run in machines of the cloud: there are no files.
    {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]},
]


def collector_arguments() -> list[str]:
    """Return the collector's command line."""
    return [
        f"-httpListenAddr=:{VLAGENT_PORT}",
        # It only reads files: nobody can hand it lines that no container printed.
        "-insert.disable",
        "-internalinsert.disable",
        f"-tmpDataPath={_FOLDER}",
        f"-remoteWrite.url={URL}/insert/native",
        # There is no secret in it, and metrics without it tell nothing.
        "-remoteWrite.showURL",
        f"-remoteWrite.maxDiskUsagePerURL={_QUEUE}",
        # Of each there is a buffer; upstream's two for each core of a GPU node would be a GiB of memory.
        "-remoteWrite.queues=4",
        "-remoteWrite.retryMaxTime=15s",
        "-kubernetesCollector",
        f"-kubernetesCollector.logsPath={LINKS}",
        # The runtime's nanoseconds keep lines in their order, and a line that claims another time (last year's, say,
        # which the store would throw away) is found where it was printed.
        f"-kubernetesCollector.timeField={_NO_FIELD}",
        # Names of the store's own: a line with a key of that name would hide those of the lines around it.
        f"-kubernetesCollector.ignoreFields={TIME_FIELD},_stream,_stream_id",
        # A word in colour is found as that word.
        f"-kubernetesCollector.decolorizeFields={MESSAGE_FIELD}",
        "-loggerFormat=json",
    ]


def permission_manifests() -> dict[str, Manifest]:
    """Return the ServiceAccount, ClusterRole and ClusterRoleBinding: it looks up its node and the pods there."""
    return {
        f"{VLAGENT}-account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": VLAGENT, "namespace": NODE_NAMESPACE, "labels": LABELS},
            "automountServiceAccountToken": False,
        },
        f"{VLAGENT}-role": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": VLAGENT, "labels": LABELS},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
            ],
        },
        f"{VLAGENT}-role-binding": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": VLAGENT, "labels": LABELS},
            "subjects": [{"kind": "ServiceAccount", "name": VLAGENT, "namespace": NODE_NAMESPACE}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VLAGENT},
        },
    }


def collector_manifest() -> Manifest:
    """Return the DaemonSet: on every node that runs containers, whatever its taints."""
    term = {"matchExpressions": _REAL_NODES}
    pod: Manifest = {
        "serviceAccountName": VLAGENT,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "securityContext": {
            # The files belong to root and are closed to others. Root without any capability is their owner, no more.
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container()],
        "volumes": [
            _host_folder("links", LINKS, "Directory"),
            _host_folder("files", FILES, "Directory"),
            _host_folder("data", NODE_FOLDER, "DirectoryOrCreate"),
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": VLAGENT,
            "namespace": NODE_NAMESPACE,
            "labels": LABELS,
            # One node of a thousand that is not well must not hold up an update.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": VLAGENT}},
            # It reads on where it stopped: many at a time do no harm, and a thousand nodes are soon done.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }


def _host_folder(name: str, path: str, kind: str) -> Manifest:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _container() -> Manifest:
    return {
        "name": VLAGENT,
        "image": VLAGENT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": collector_arguments(),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": VLAGENT_PORT}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": METRICS_PORT_NAME}, "periodSeconds": 5},
        "securityContext": {
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "links", "mountPath": LINKS, "readOnly": True},
            {"name": "files", "mountPath": FILES, "readOnly": True},
            {"name": "data", "mountPath": _FOLDER},
        ],
    }
