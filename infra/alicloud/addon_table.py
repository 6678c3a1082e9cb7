"""The one table of ACK add-ons: which version, when it is wanted, and why.

Every version is one that ACK's release notes, or its documents, name; none is ever left to ACK to choose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.images import ImageSettings
    from infra.settings.monitoring import MonitoringSettings

Stage = Literal["before_pools", "after_pools"]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What decides which add-ons a cluster gets."""

    alicloud: AlicloudSettings
    images: ImageSettings | None = None
    """None where only the cluster itself is made."""
    monitoring: MonitoringSettings | None = None
    """The same."""


Config = dict[str, Any]


def _always(_: Environment) -> bool:
    return True


def _plain(_: Environment) -> Config:
    return {}


@dataclass(frozen=True, kw_only=True)
class Addon:
    """One add-on of ACK."""

    name: str
    version: str
    """The pinned version, as ACK writes it."""
    source: str
    """Where that version is published."""
    why: str
    at_birth: bool = False
    """Whether ACK would install it with the cluster, in its newest version, if it were not named there with ours.

    A version lower than the installed one cannot be installed later.
    """
    stage: Stage = "after_pools"
    """Whether it must be there before the nodes it works on, or runs on nodes itself."""
    wanted: Callable[[Environment], bool] = _always
    config: Callable[[Environment], Config] = _plain


def _has_gpus(environment: Environment) -> bool:
    return any(pool.role == "gpu" for pool in environment.alicloud.node_pools)


def _has_erdma(environment: Environment) -> bool:
    return any(pool.rdma and not pool.lingjun for pool in environment.alicloud.node_pools)


def _has_lingjun_rdma(environment: Environment) -> bool:
    return any(pool.rdma and pool.lingjun for pool in environment.alicloud.node_pools)


def _wants_credential_helper(environment: Environment) -> bool:
    return environment.images is not None and environment.images.credential_helper


def _wants_managed_prometheus(environment: Environment) -> bool:
    return environment.monitoring is not None and environment.monitoring.kind == "managed"


def _managed_prometheus(_: Environment) -> Config:
    return {"prometheusMode": "default"}


def wants_log_service(monitoring: MonitoringSettings | None) -> bool:
    """Whether the logs of pods go to the Log Service."""
    return monitoring is not None and monitoring.kind != "none" and monitoring.logs.kind == "sls"


def _collects_logs(environment: Environment) -> bool:
    return wants_log_service(environment.monitoring)


def _log_collector(_: Environment) -> Config:
    # Values are strings. There is no ingress controller to draw.
    return {"IngressDashboardEnabled": "false"}


def _terway(_: Environment) -> Config:
    # Values are strings: ACK ignores booleans here. IPVlan stays off: DataPathV2 knows no exclusive ENI pools.
    return {"ENITrunking": "true", "IPVlan": "false", "NetworkPolicy": "true"}


def _terway_controlplane(_: Environment) -> Config:
    return {"ENITrunking": "true"}


def _erdma(_: Environment) -> Config:
    # NCCL needs the driver's OFED mode; pods may ask for each device of a node.
    return {"agent": {"allocateAllDevices": True, "preferDriver": "ofed"}}


def _credential_helper(environment: Environment) -> Config:
    config: Config = {"serviceAccount": "*", "watchNamespace": "all"}
    if environment.images and environment.images.acr_instance_id:
        instance = {"instanceId": environment.images.acr_instance_id, "regionId": environment.alicloud.region}
        config["AcrInstanceInfo"] = [instance]
    return config


_NOTES = "ACK, release notes of the component"

ADDONS: tuple[Addon, ...] = (
    Addon(
        name="terway-eniip",
        version="v1.16.7",
        source=f"{_NOTES} Terway, 2026-01-14; ACK 1.34 and 1.35 need v1.15 or newer",
        why="pods get addresses of the VPC; member interfaces for PodNetworking; network policies",
        at_birth=True,
        config=_terway,
    ),
    Addon(
        name="terway-controlplane",
        version="v1.16.7",
        source=f"{_NOTES} Terway, 2026-01-14; always the version of terway-eniip",
        why="gives pods their member interfaces",
        at_birth=True,
        config=_terway_controlplane,
    ),
    Addon(
        name="coredns",
        version="v1.12.1.3",
        source=f"{_NOTES} CoreDNS, unmanaged edition, 2025-11-05",
        why="names of Services and of the pods of a job",
        at_birth=True,
    ),
    Addon(
        name="metrics-server",
        version="v0.3.9.7-85b3699-aliyun",
        source=f"{_NOTES} metrics-server, January 2024",
        why="horizontal autoscaling of services; kubectl top",
        at_birth=True,
    ),
    Addon(
        name="csi-plugin",
        version="v1.35.1",
        source=f"{_NOTES} csi-plugin, 2026-01-19",
        why="mounts disks, NAS, CPFS and OSS on nodes",
        at_birth=True,
    ),
    Addon(
        name="managed-csiprovisioner",
        version="v1.35.1",
        source=f"{_NOTES} csi-provisioner, 2026-01-19; always the version of csi-plugin",
        why="creates volumes; runs beside the control plane",
        at_birth=True,
    ),
    Addon(
        name="ack-node-problem-detector",
        version="1.2.35",
        source="ACK, product change on the automatic isolation of GPUs, 2026-05-14",
        why="reports GPU faults (Xid) and node faults, which auto-repair acts on",
    ),
    Addon(
        name="ack-nvidia-device-plugin",
        version="0.7.0",
        source="ACK, product change on the automatic isolation of GPUs, 2026-05-14",
        why="nvidia.com/gpu on nodes whose GPUs are not shared",
        at_birth=True,
        wanted=_has_gpus,
    ),
    Addon(
        name="ack-erdma-controller",
        version="0.2.6",
        source="ACK, 'Access instance metadata in security hardening mode', table of components",
        why="gives GPU nodes their eRDMA interfaces and pods aliyun/erdma",
        stage="before_pools",
        wanted=_has_erdma,
        config=_erdma,
    ),
    Addon(
        name="ack-rdma-device-plugin",
        version="1.1.5",
        source=f"{_NOTES} ack-rdma-device-plugin, 2026-08-14",
        why="rdma/hca on Lingjun nodes",
        wanted=_has_lingjun_rdma,
    ),
    Addon(
        name="ack-pod-identity-webhook",
        version="0.4.0",
        source=f"{_NOTES} ack-pod-identity-webhook, 2025-11-24",
        why="RAM roles for service accounts, so that no pod holds a key",
    ),
    Addon(
        name="arms-prometheus",
        version="1.1.39",
        source="Managed Service for Prometheus, release notes of the Prometheus agent, April 2026",
        why="reads nodes, pods, GPUs and our monitors for the managed Prometheus",
        wanted=_wants_managed_prometheus,
        config=_managed_prometheus,
    ),
    Addon(
        name="loongcollector",
        version="v3.3.3.1-aliyun",
        source="the version of ACK's log collector, then under its former name logtail-ds, in clusters of 2026-10",
        why="hands the logs of pods to the Log Service",
        wanted=_collects_logs,
        config=_log_collector,
    ),
    Addon(
        name="managed-aliyun-acr-credential-helper",
        version="v24.01.29.1-5318af4-aliyun",
        source="the version that ACK installed in clusters of 2026-10",
        why="pulls from the account's own registry without secrets",
        wanted=_wants_credential_helper,
        config=_credential_helper,
    ),
)

DISABLED_AT_BIRTH: tuple[str, ...] = ("nginx-ingress-controller",)
"""What ACK would install by itself and we do not want: it opens a load balancer to the internet."""


def version_of(addon: Addon, environment: Environment) -> str:
    """Return the version to install: the settings' own, else the table's."""
    return environment.alicloud.kubernetes.addon_versions.get(addon.name, addon.version)


def config_json(addon: Addon, environment: Environment) -> str | None:
    """Return an add-on's configuration as the provider reads it back: sorted, no spaces; None where it is empty."""
    config = addon.config(environment)
    return json.dumps(config, sort_keys=True, separators=(",", ":")) if config else None


def birth_addons(environment: Environment) -> list[dict[str, Any]]:
    """Return the `addons` of a new cluster. No node pool decides any of it: it can never change afterwards."""
    named: list[dict[str, Any]] = []
    for addon in ADDONS:
        if addon.at_birth:
            entry: dict[str, Any] = {"name": addon.name, "version": version_of(addon, environment)}
            config = config_json(addon, environment)
            named.append({**entry, "config": config} if config else entry)
    return [*named, *({"name": name, "disabled": True} for name in DISABLED_AT_BIRTH)]
