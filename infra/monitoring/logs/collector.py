"""The collector of logs: vlagent on every node, which follows the files that the container runtime writes.

Source of the flags and of the rights it needs: VictoriaLogs 1.43.1, docs/victorialogs/vlagent.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import VLAGENT_IMAGE
from infra.kubernetes.access import READ, role_manifests, rule
from infra.kubernetes.controllers import MANY_NODES_AT_ONCE, PodTemplate, daemon_set_manifest
from infra.kubernetes.pods import container_security, host_folder, required_nodes, resources
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import NODE_NAMESPACE, VLAGENT, VLAGENT_PORT
from infra.monitoring.logs import MESSAGE_FIELD, TIME_FIELD
from infra.monitoring.logs.store import URL
from infra.monitoring.parts import account, labels, metadata
from infra.node_labels import NOT_SIMULATED

if TYPE_CHECKING:
    from infra.manifests import Manifest

NODE_FOLDER = "/var/lib/athanor/vlagent"
"""Folder of every node: how far each file was read, and lines that the store could not take yet."""
LINKS, FILES = "/var/log/containers", "/var/log/pods"
"""Folders of every node: links named by pod, namespace and container, and the files that they lead to."""
_FOLDER = "/var/lib/vlagent"
_QUEUE = "2GiB"
"""Buffer of a node while the store is away, in files of half a GiB; then the oldest lines go."""
_NO_FIELD = "athanor.dev/none"
_NODES_WITH_LOG_FILES = [
    NOT_SIMULATED,
    # Its pods run in machines of the cloud: there are no files.
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
    rules = [rule("core", "pods", READ), rule("core", "nodes", ("get",))]
    granted = role_manifests(metadata(VLAGENT, None), rules, (VLAGENT, NODE_NAMESPACE))
    return {
        f"{VLAGENT}-account": account(VLAGENT, NODE_NAMESPACE),
        f"{VLAGENT}-role": granted["ClusterRole"],
        f"{VLAGENT}-role-binding": granted["ClusterRoleBinding"],
    }


def collector_manifest() -> Manifest:
    """Return the DaemonSet: on every node that runs containers, whatever its taints."""
    pod: Manifest = {
        "serviceAccountName": VLAGENT,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "affinity": required_nodes(_NODES_WITH_LOG_FILES),
        "securityContext": {
            # The files belong to root and are closed to others. Root without any capability is their owner, no more.
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container()],
        "volumes": [
            host_folder("links", LINKS),
            host_folder("files", FILES),
            host_folder("data", NODE_FOLDER, "DirectoryOrCreate"),
        ],
    }
    pods = PodTemplate(selector={"app.kubernetes.io/name": VLAGENT}, labels=labels(VLAGENT), spec=pod)
    # It reads on where it stopped.
    return daemon_set_manifest(metadata(VLAGENT, NODE_NAMESPACE), pods, MANY_NODES_AT_ONCE)


def _container() -> Manifest:
    return {
        "name": VLAGENT,
        "image": VLAGENT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": collector_arguments(),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": VLAGENT_PORT}],
        "resources": resources("50m", "64Mi", "512Mi"),
        "readinessProbe": {"httpGet": {"path": "/health", "port": METRICS_PORT_NAME}, "periodSeconds": 5},
        "securityContext": {
            "runAsNonRoot": False,
            **container_security(),
        },
        "volumeMounts": [
            {"name": "links", "mountPath": LINKS, "readOnly": True},
            {"name": "files", "mountPath": FILES, "readOnly": True},
            {"name": "data", "mountPath": _FOLDER},
        ],
    }
