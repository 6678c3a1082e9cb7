"""Settings of the ACK cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from infra.alicloud.addon_table import ADDONS
from infra.errors import choices
from infra.settings.fields import Model

_OLDEST_MINOR = 32


def _supported(version: str) -> str:
    """ACK's device plugin is an add-on from 1.32 on; before, it is a static pod that nobody manages."""
    if int(version.split(".")[1]) < _OLDEST_MINOR:
        raise ValueError(f"is older than 1.{_OLDEST_MINOR}. Fix: use a newer version, such as 1.34.3-aliyun.1")
    return version


AckVersion = Annotated[
    str, StringConstraints(pattern=r"^1\.[0-9]{2}\.[0-9]+-aliyun\.[0-9]+$"), AfterValidator(_supported)
]


def _known_addon(name: str) -> str:
    names = [addon.name for addon in ADDONS]
    if name not in names:
        raise ValueError(f"is no add-on of infra/alicloud/addon_table.py. Fix: {choices(name, names)}")
    return name


AddonName = Annotated[str, AfterValidator(_known_addon)]
AddonVersion = Annotated[str, StringConstraints(pattern=r"^v?[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9]+)*$")]
Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class MaintenanceSettings(Model):
    """When ACK may touch the control plane and its nodes."""

    start: Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "18:00"
    """Start of the window in UTC, HH:MM."""
    hours: int = Field(default=3, ge=1, le=24, strict=True)
    """Length of the window."""
    weekdays: tuple[Weekday, ...] = ("Saturday",)
    """Days it opens on."""


class KubernetesSettings(Model):
    """The ACK Pro managed cluster."""

    version: AckVersion = "1.34.3-aliyun.1"
    """Kubernetes version as ACK names it, 1.32 or newer; a higher one upgrades the control plane in place. Nodes follow
    when their pool is upgraded in ACK."""
    edition: Literal["ack.pro.small", "ack.pro.xlarge", "ack.pro.2xlarge", "ack.pro.4xlarge"] = "ack.pro.small"
    """Size of the managed control plane; fixed at birth."""
    public_api_server: bool = False
    """Whether the API server also answers on the internet; fixed at birth."""
    proxy_mode: Literal["ipvs", "iptables"] = "ipvs"
    """kube-proxy's mode; another one means another cluster."""
    encryption_key_id: str | None = None
    """KMS key that encrypts Secrets at rest; it can be set and changed later, but not taken away."""
    control_plane_log_days: int = Field(default=30, ge=1, le=3650, strict=True)
    """How long control-plane logs stay in SLS."""
    auto_upgrade: Literal["none", "patch", "stable", "rapid"] = "none"
    """Channel of automatic upgrades. With one, `version` is only the version at birth."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """When ACK may work on the cluster."""
    addon_versions: dict[AddonName, AddonVersion] = Field(default_factory=dict)
    """Other versions than the pinned ones in infra/alicloud/addon_table.py, by add-on name."""
    autoscaler: Literal["goatscaler", "cluster-autoscaler"] = "goatscaler"
    """What scales node pools: ACK's instant scaling, which wants every pod below 70% of a node, or the
    cluster-autoscaler, which knows no such limit but is slower."""
