"""Configuration of nodes with eRDMA in addition to that of all nodes: locked memory, and a limit of pods."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from infra.alicloud.addon_table import wants_log_service

if TYPE_CHECKING:
    from infra.settings.monitoring import MonitoringSettings
    from infra.settings.node_pools import NodePoolSettings

_ALWAYS = ("terway-eniip", "kube-proxy-worker", "csi-plugin", "ack-node-problem-detector-daemonset")
_ON_ERDMA_NODES = ("ack-nvidia-device-plugin", "alibabacloud-erdma-agent")
_MEMLOCK_DROP_IN = "/etc/systemd/system/containerd.service.d/99-athanor-memlock.conf"
_UNLOCK_MEMORY = f"""#!/bin/bash
# RDMA locks the memory that it transfers. A container gets containerd's limit, 64 KiB by default.
mkdir -p {_MEMLOCK_DROP_IN.rpartition("/")[0]}
printf '[Service]\\nLimitMEMLOCK=infinity\\n' > {_MEMLOCK_DROP_IN}
systemctl daemon-reload
systemctl try-restart containerd
"""


def unlocked_memory() -> str:
    """Return the pre-defined custom data of RDMA nodes, base64, which ACK runs before a node joins.

    A program that is not root cannot use a capability added to its container (kubernetes/kubernetes#56374), so IPC_LOCK
    does not help user 10001: registering memory fails with ENOMEM unless the node's limit is high, as NVIDIA/nvcf#1354
    found. ACK, "Customize the containerd configuration of a node pool": the limit is 64 KiB, and infinity only where
    RDMA interfaces are there when a node is set up; the eRDMA controller attaches ours later. The setting that this
    page describes, limitMemLock, is unknown to version 1.285 of the Terraform provider, so that custom data writes what
    systemd reads.
    """
    return base64.b64encode(_UNLOCK_MEMORY.encode()).decode()


def max_pods(pool: NodePoolSettings, monitoring: MonitoringSettings | None) -> int:
    """Return the kubelet's limit: the pods that get an address on the smallest type, and those that need none.

    ACK computes the limit of every node from its type (*Work with Terway*), but not without the interfaces that Terway
    leaves to eRDMA: pods beyond that would get no address.
    """
    addresses = min(facts.pods(pool.eni, rdma=True) for facts in pool.facts)
    return addresses + len(host_network_daemon_sets(monitoring))


def host_network_daemon_sets(monitoring: MonitoringSettings | None) -> tuple[str, ...]:
    """Return the DaemonSets that have a pod on the host's network on every node with eRDMA, by name.

    The one of the eRDMA controller: AliyunContainerService/alibabacloud-erdma-controller,
    deploy/helm/templates/daemonset.yaml. Ours: infra/monitoring/node_exporter.py. That ACK runs the others (Terway,
    kube-proxy, CSI, the problem detector, the device plugin, the log collector) on the host's network is an assumption.
    One that is not there admits one pod for which there is no address; one that is missing here wastes an address.
    """
    own = ("node-exporter",) if monitoring and monitoring.kind == "operator" else ()
    collector = ("loongcollector-ds",) if wants_log_service(monitoring) else ()
    return (*_ALWAYS, *_ON_ERDMA_NODES, *own, *collector)
