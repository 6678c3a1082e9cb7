"""The kubelet of the one real node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tools.local_cluster import control_plane, kubeconfig, pki
from tools.local_cluster.component import Component, configuration_file, go_memory, http_probe

if TYPE_CHECKING:
    from pathlib import Path

    from tools.local_cluster.layout import Layout, Network

KUBELET_PORT, HEALTH_PORT = 10250, 10248
MEMORY_LIMIT_MIB = 128
ROOT = "/var/lib/kubelet"
"""Folder in the node's own /var/lib. Its path is short, because the kubelet makes sockets in it."""
CLUSTER_DOMAIN = "cluster.local"
CLIENT, SERVING = "kubelet-client", "kubelet-serving"


def kubelet_configuration(layout: Layout, network: Network, resolver: Path) -> dict[str, Any]:
    """Return the kubelet's configuration.

    Source: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
    """
    serving = pki.identity(layout.config, SERVING)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(network.node),
        "port": KUBELET_PORT,
        "healthzBindAddress": control_plane.LOOPBACK,
        "healthzPort": HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(control_plane.authority(layout).certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # a lower score than others' needs CAP_SYS_RESOURCE, which not every root has
        "oomScoreAdj": 0,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [str(network.dns_service)],
        "resolvConf": str(resolver),
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": f"{ROOT}/volume-plugins",
        # a large disk that is 90 % full still has plenty of room: evict by what is left, not by percent
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1Gi",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1Gi",
            "imagefs.inodesFree": "1%",
        },
        # images are loaded, not pulled: a collected one would not come back by itself
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }


def issue_certificates(layout: Layout, network: Network) -> None:
    """Give the kubelet its certificates: one to ask the API server with, one to be asked with."""
    authority = control_plane.authority(layout)
    subject = f"/O=system:nodes/CN=system:node:{layout.node_name}"
    client = pki.issue(authority, layout.config, CLIENT, subject=subject)
    pki.issue(authority, layout.config, SERVING, subject=subject, server_address=network.node)
    kubeconfig.write(_access(layout), kubeconfig.for_identity(layout, network, client))


def _access(layout: Layout) -> Path:
    return layout.config / "kubelet.kubeconfig"


def kubelet(layout: Layout, network: Network, program: Path) -> Component:
    """Return the kubelet as a component; its certificates must have been issued before it starts."""
    resolver = layout.config / "resolv.conf"
    text = yaml.safe_dump(kubelet_configuration(layout, network, resolver))
    config = configuration_file(layout.config, "kubelet.yaml", text)
    return Component(
        name="kubelet",
        command=(
            str(program),
            f"--config={config}",
            f"--kubeconfig={_access(layout)}",
            f"--hostname-override={layout.node_name}",
            f"--node-ip={network.node}",
            f"--root-dir={ROOT}",
            f"--cert-dir={ROOT}/pki",
            # What counts CPU, memory and network (cAdvisor) asks containerd which container a cgroup is; it would look
            # at containerd's usual place, and then name none.
            f"--containerd={layout.containerd_socket}",
        ),
        environment=go_memory(MEMORY_LIMIT_MIB),
        # pods that use the node's own resolver get none: the node reaches no other machine
        files={config: text, resolver: ""},
        address=f"{network.node}:{KUBELET_PORT}",
        probe=http_probe(control_plane.LOOPBACK, HEALTH_PORT, "/healthz"),
    )
