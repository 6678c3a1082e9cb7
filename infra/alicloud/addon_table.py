"""The table of ACK's add-ons: which ones an environment has, and their configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.ack_addons import ACK_ADDONS, AckAddon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.images import ImageSettings
    from infra.settings.monitoring import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The facts that decide which add-ons a cluster gets."""

    alicloud: AlicloudSettings
    images: ImageSettings | None = None
    """None where only the cluster itself is declared."""
    monitoring: MonitoringSettings | None = None
    """The same."""


Config = dict[str, Any]


def _always(_: Environment) -> bool:
    return True


def _plain(_: Environment) -> Config:
    return {}


@dataclass(frozen=True, kw_only=True)
class Addon(AckAddon):
    """One add-on of ACK, and what it depends on whether and how it is installed."""

    applies_to: Callable[[Environment], bool]
    config: Callable[[Environment], Config]


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
    # Workloads use the account `default` of their namespaces, the platform's parts have accounts of their own.
    config: Config = {"serviceAccount": "*", "watchNamespace": "all"}
    if environment.images and environment.images.credential_namespaces:
        config["watchNamespace"] = ",".join(environment.images.credential_namespaces)
    if environment.images and environment.images.acr_instance_id:
        instance = {"instanceId": environment.images.acr_instance_id, "regionId": environment.alicloud.region}
        config["AcrInstanceInfo"] = [instance]
    return config


_CONDITIONS: Mapping[str, Callable[[Environment], bool]] = {
    "ack-nvidia-device-plugin": _has_gpus,
    "ack-erdma-controller": _has_erdma,
    "ack-rdma-device-plugin": _has_lingjun_rdma,
    "arms-prometheus": _wants_managed_prometheus,
    "loongcollector": _collects_logs,
    "managed-aliyun-acr-credential-helper": _wants_credential_helper,
}
"""Conditions of add-ons that are not always installed."""
_CONFIGS: Mapping[str, Callable[[Environment], Config]] = {
    "terway-eniip": _terway,
    "terway-controlplane": _terway_controlplane,
    "ack-erdma-controller": _erdma,
    "arms-prometheus": _managed_prometheus,
    "loongcollector": _log_collector,
    "managed-aliyun-acr-credential-helper": _credential_helper,
}
ADDONS = tuple(
    Addon(**vars(facts), applies_to=_CONDITIONS.get(facts.name, _always), config=_CONFIGS.get(facts.name, _plain))
    for facts in ACK_ADDONS
)

DISABLED_AT_BIRTH: tuple[str, ...] = ("nginx-ingress-controller",)
"""Add-ons that ACK would install by itself and that are not wanted: it opens a load balancer to the internet."""


def version_of(addon: Addon, environment: Environment) -> str:
    """Return the lowest version to have: the settings' own, else the table's."""
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
