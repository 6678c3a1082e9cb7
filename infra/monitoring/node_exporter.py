"""The node exporter: metrics of every node's CPU, memory, disks, file systems and network.

Source: prometheus/node_exporter 1.12, README.md, and the flags of its collectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import NODE_EXPORTER_IMAGE
from infra.kubernetes.controllers import MANY_NODES_AT_ONCE, PodTemplate, daemon_set_manifest
from infra.kubernetes.pods import container_security, host_folder, pod_security, required_nodes, resources
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import NODE_EXPORTER, NODE_EXPORTER_PORT, NODE_NAMESPACE
from infra.monitoring.parts import NOBODY, account, labels, metadata
from infra.node_labels import NOT_SIMULATED

if TYPE_CHECKING:
    from infra.manifests import Manifest

COLLECTORS = (
    "cpu", "diskstats", "edac", "filesystem", "infiniband", "loadavg", "meminfo", "netdev", "stat", "timex", "vmstat",
)  # fmt: skip
"""Enabled collectors: no more than rules and dashboards use, for every one of them costs series on every node."""
_HOST = "/host"
_ROOT = f"{_HOST}/node"
# Mounts of pods and containers: their file systems are the node's, or a volume that its kubelet reports.
_MOUNTS_OF_PODS = "^/(dev|proc|sys|run/containerd/.+|run/credentials/.+|var/lib/(containerd|docker|kubelet)/.+)($|/)"
_DEVICES_OF_PODS = "^(lo|veth.*|cali.*|cni.*|lxc.*|docker.*|kube-ipvs.*|nodelocaldns)$"
_LINUX_MACHINES = [
    NOT_SIMULATED,
    {"key": "type", "operator": "NotIn", "values": ["kwok", "virtual-kubelet"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
]
"""Nodes with a kernel to ask: neither simulated, nor a cloud's service behind a virtual kubelet, nor Windows."""


def node_exporter_arguments() -> list[str]:
    """Return its command line."""
    return [
        # The network is the node's own (netdev), and so would be the port: not on every address it has.
        f"--web.listen-address=$(NODE_ADDRESS):{NODE_EXPORTER_PORT}",
        "--web.disable-exporter-metrics",
        f"--path.procfs={_HOST}/proc",
        f"--path.sysfs={_HOST}/sys",
        f"--path.rootfs={_ROOT}",
        f"--path.udev.data={_ROOT}/run/udev/data",
        "--collector.disable-defaults",
        *(f"--collector.{name}" for name in COLLECTORS),
        f"--collector.filesystem.mount-points-exclude={_MOUNTS_OF_PODS}",
        f"--collector.netdev.device-exclude={_DEVICES_OF_PODS}",
    ]


def node_exporter_manifests() -> dict[str, Manifest]:
    """Return all objects by logical name. No network policy: none reaches pods with the node's own network."""
    return {
        f"{NODE_EXPORTER}-account": account(NODE_EXPORTER, NODE_NAMESPACE),
        NODE_EXPORTER: _daemon_set(),
    }


def _container() -> Manifest:
    address = {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    return {
        "name": NODE_EXPORTER,
        "image": NODE_EXPORTER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": node_exporter_arguments(),
        "env": [address],
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": NODE_EXPORTER_PORT, "hostPort": NODE_EXPORTER_PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": METRICS_PORT_NAME}, "periodSeconds": 5},
        "resources": resources("20m", "24Mi", "128Mi"),
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "proc", "mountPath": f"{_HOST}/proc", "readOnly": True},
            {"name": "sys", "mountPath": f"{_HOST}/sys", "readOnly": True},
            # A disk that is mounted later must be seen, too.
            {"name": "root", "mountPath": _ROOT, "readOnly": True, "mountPropagation": "HostToContainer"},
        ],
    }


def _daemon_set() -> Manifest:
    pod: Manifest = {
        "serviceAccountName": NODE_EXPORTER,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "affinity": required_nodes(_LINUX_MACHINES),
        "securityContext": pod_security(NOBODY),
        "containers": [_container()],
        "volumes": [host_folder("proc", "/proc"), host_folder("sys", "/sys"), host_folder("root", "/")],
    }
    pods = PodTemplate(selector={"app.kubernetes.io/name": NODE_EXPORTER}, labels=labels(NODE_EXPORTER), spec=pod)
    return daemon_set_manifest(metadata(NODE_EXPORTER, NODE_NAMESPACE), pods, MANY_NODES_AT_ONCE)
