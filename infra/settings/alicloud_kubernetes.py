"""Settings of the ACK cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from infra.settings.fields import Model

AckVersion = Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{2}\.[0-9]+-aliyun\.[0-9]+$")]
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
    """Kubernetes version as ACK names it; a higher one upgrades the control plane in place."""
    edition: Literal["ack.pro.small", "ack.pro.xlarge", "ack.pro.2xlarge", "ack.pro.4xlarge"] = "ack.pro.small"
    """Size of the managed control plane."""
    public_api_server: bool = False
    """Whether the API server also answers on the internet."""
    proxy_mode: Literal["ipvs", "iptables"] = "ipvs"
    """kube-proxy's mode; fixed at birth."""
    encryption_key_id: str | None = None
    """KMS key that encrypts Secrets at rest; fixed at birth."""
    control_plane_log_days: int = Field(default=30, ge=1, le=3650, strict=True)
    """How long control-plane logs stay in SLS."""
    auto_upgrade: Literal["none", "patch", "stable", "rapid"] = "none"
    """Channel of automatic upgrades. With one, `version` is only the version at birth."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """When ACK may work on the cluster."""
    addon_versions: dict[str, str] = Field(default_factory=dict)
    """Other versions than the pinned ones in infra/alicloud/addons.py, by add-on name."""
