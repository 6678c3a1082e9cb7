"""kube-proxy of the one real node: Services as rules in the node's own packet filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tools.local_cluster import control_plane, kubeconfig, pki
from tools.local_cluster.component import Component, configuration_file, go_memory, http_probe

if TYPE_CHECKING:
    from pathlib import Path

    from tools.local_cluster.layout import Layout, Network

HEALTH_PORT, METRICS_PORT = 10256, 10249
MEMORY_LIMIT_MIB = 64
CLIENT = "kube-proxy-client"


def kube_proxy_configuration(layout: Layout, network: Network) -> dict[str, Any]:
    """Return kube-proxy's configuration.

    Source: https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
    """
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": layout.node_name,
        "bindAddress": str(network.node),
        "healthzBindAddress": f"{control_plane.LOOPBACK}:{HEALTH_PORT}",
        "metricsBindAddress": f"{control_plane.LOOPBACK}:{METRICS_PORT}",
        "clusterCIDR": str(network.pods),
        "clientConnection": {"kubeconfig": str(_access(layout))},
        "oomScoreAdj": 0,
        # the size of the connection table is the machine's, not the node's to set
        "conntrack": {"maxPerCore": 0, "min": 0},
        # a new Service should answer at once; few rules make a full rewrite cheap
        "iptables": {"minSyncPeriod": "100ms"},
        # node ports answer on the node's address alone
        "nodePortAddresses": [f"{network.node}/32"],
    }


def issue_certificates(layout: Layout, network: Network) -> None:
    """Give kube-proxy its certificate to ask the API server with."""
    client = pki.issue(control_plane.authority(layout), layout.config, CLIENT, subject="/CN=system:kube-proxy")
    kubeconfig.write(_access(layout), kubeconfig.for_identity(layout, network, client))


def _access(layout: Layout) -> Path:
    return layout.config / "kube-proxy.kubeconfig"


def kube_proxy(layout: Layout, network: Network, program: Path) -> Component:
    """Return kube-proxy as a component; its certificate must have been issued before it starts."""
    text = yaml.safe_dump(kube_proxy_configuration(layout, network))
    config = configuration_file(layout.config, "kube-proxy.yaml", text)
    return Component(
        name="kube-proxy",
        command=(str(program), f"--config={config}"),
        environment=go_memory(MEMORY_LIMIT_MIB),
        files={config: text},
        address=f"{control_plane.LOOPBACK}:{HEALTH_PORT}",
        probe=http_probe(control_plane.LOOPBACK, HEALTH_PORT, "/healthz"),
    )
