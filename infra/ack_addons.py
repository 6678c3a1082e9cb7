"""ACK's add-ons: the version of each, its source, and the reason why it is there.

Every version is one that ACK's release notes, or its documents, name; none is left to ACK to choose. They are minimums
(infra/alicloud/addon_versions.py), and fit every minor that ACK creates clusters with: its release notes of Kubernetes
1.35 (2026-08-26) and 1.36 (2026-06-06) name Terway v1.15.0 or newer, CoreDNS v1.12.1.2 and v1.12.1.3, the latest CSI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["before_rdma", "after_pools"]


@dataclass(frozen=True, kw_only=True)
class AckAddon:
    """One add-on of ACK."""

    name: str
    version: str
    """The lowest version to have, as ACK writes it."""
    source: str
    """Publication of that version."""
    why: str
    at_birth: bool = False
    """Whether ACK would install it with the cluster, in its newest version, if it were not named there with ours.

    A version lower than the installed one cannot be installed later.
    """
    stage: Stage = "after_pools"
    """Whether it must be there before nodes with RDMA join."""


_NOTES = "ACK, release notes of the component"

ACK_ADDONS: tuple[AckAddon, ...] = (
    AckAddon(
        name="terway-eniip",
        version="v1.16.7",
        source=f"{_NOTES} Terway, 2026-01-14; ACK 1.34 and 1.35 need v1.15 or newer",
        why="pods get addresses of the VPC; member interfaces for PodNetworking; network policies",
        at_birth=True,
    ),
    AckAddon(
        name="terway-controlplane",
        version="v1.16.7",
        source=f"{_NOTES} Terway, 2026-01-14; always the version of terway-eniip",
        why="gives pods their member interfaces",
        at_birth=True,
    ),
    AckAddon(
        name="coredns",
        version="v1.12.1.3",
        source=f"{_NOTES} CoreDNS, unmanaged edition, 2025-11-05",
        why="names of Services and of the pods of a job",
        at_birth=True,
    ),
    AckAddon(
        name="metrics-server",
        version="v0.3.9.7-85b3699-aliyun",
        source=f"{_NOTES} metrics-server, January 2024",
        why="horizontal autoscaling of services; kubectl top",
        at_birth=True,
    ),
    AckAddon(
        name="csi-plugin",
        version="v1.36.1",
        source=f"{_NOTES} csi-plugin, 2026-05-30",
        why="mounts disks, NAS, CPFS and OSS on nodes",
        at_birth=True,
    ),
    AckAddon(
        name="managed-csiprovisioner",
        version="v1.36.1",
        source=f"{_NOTES} csi-provisioner, 2026-05-30; always the version of csi-plugin",
        why="creates volumes; runs alongside the control plane",
        at_birth=True,
    ),
    AckAddon(
        name="ack-node-problem-detector",
        version="1.2.35",
        source="ACK, product change on the automatic isolation of GPUs, 2026-05-14",
        why="reports GPU faults (Xid) and node faults, which auto-repair acts on",
    ),
    AckAddon(
        name="ack-nvidia-device-plugin",
        version="0.7.0",
        source="ACK, product change on the automatic isolation of GPUs, 2026-05-14",
        why="nvidia.com/gpu on nodes whose GPUs are not shared",
        at_birth=True,
    ),
    AckAddon(
        name="ack-erdma-controller",
        version="0.2.6",
        source="ACK, 'Access instance metadata in security hardening mode', table of components",
        why="gives GPU nodes their eRDMA interfaces and pods aliyun/erdma",
        stage="before_rdma",
    ),
    AckAddon(
        name="ack-rdma-device-plugin",
        version="1.1.5",
        source=f"{_NOTES} ack-rdma-device-plugin, 2026-08-14",
        why="rdma/hca on Lingjun nodes",
    ),
    AckAddon(
        name="ack-pod-identity-webhook",
        version="0.4.0",
        source=f"{_NOTES} ack-pod-identity-webhook, 2025-11-24",
        why="RAM roles for service accounts, so that no pod holds a key",
    ),
    AckAddon(
        name="arms-prometheus",
        version="1.1.39",
        source="Managed Service for Prometheus, release notes of the Prometheus agent, April 2026",
        why="reads nodes, pods, GPUs and our monitors for the managed Prometheus",
    ),
    AckAddon(
        name="loongcollector",
        version="v3.3.3.1-aliyun",
        source="the version of ACK's log collector, then under its former name logtail-ds, in clusters of 2026-10",
        why="hands the logs of pods to the Log Service",
    ),
    AckAddon(
        name="managed-aliyun-acr-credential-helper",
        version="v24.01.29.1-5318af4-aliyun",
        source="the version that ACK installed in clusters of 2026-10",
        why="pulls from the account's own registry without secrets",
    ),
)
