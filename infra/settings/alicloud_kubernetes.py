"""Settings of the ACK cluster."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.ack_addons import ACK_ADDONS
from infra.errors import choices
from infra.settings.fields import Model

_OLDEST_MINOR, _NEWEST_MINOR = 32, 36
"""Before 1.32 ACK's device plugin is a static pod that nobody manages, from then on an add-on. 1.36 is the latest that
ACK lists (ACK, "Kubernetes versions supported by ACK", 2026-10-06)."""
DEFAULT_VERSION = "1.35"
"""Of new clusters: ACK's channel `stable`, the second latest minor."""
END_OF_SUPPORT = {32: "2026-01-31", 33: "2026-05-31", 34: "2026-09-30", 35: "2027-02-28", 36: "2027-05-30"}
"""Last day of ACK's support, by minor (the same page of ACK; that of 1.36 was planned when it was read)."""
NFTABLES_SINCE = 35
"""First minor whose kube-proxy ACK runs with nftables (terraform-provider-alicloud 1.285.0, cs_managed_kubernetes,
`proxy_mode`)."""
ProxyMode = Literal["nftables", "ipvs", "iptables"]


def minor_of(version: str) -> int:
    """Return the minor of a version, with or without a patch: 34 for 1.34 and for 1.34.10-aliyun.1."""
    return int(version.split(".")[1])


def _supported(version: str) -> str:
    minor = minor_of(version)
    if minor < _OLDEST_MINOR:
        raise ValueError(f"is older than 1.{_OLDEST_MINOR}. Fix: use a newer version, such as {DEFAULT_VERSION}")
    if minor > _NEWEST_MINOR:
        raise ValueError(
            f"is newer than 1.{_NEWEST_MINOR}, the latest that ACK offers. Fix: use an older version, such as"
            f" {DEFAULT_VERSION}; ACK lists its versions with `aliyun cs GET /api/v1/metadata/versions`"
        )
    return version


AckVersion = Annotated[
    # ACK begins with a minor's first patch and revises one a few times; Kubernetes has made no 20 of any minor.
    str,
    StringConstraints(pattern=r"^1\.[0-9]{2}(\.([1-9]|1[0-9]|20)-aliyun\.[1-9])?$"),
    AfterValidator(_supported),
]


def _known_addon(name: str) -> str:
    names = [addon.name for addon in ACK_ADDONS]
    if name not in names:
        raise ValueError(f"is not an add-on in infra/ack_addons.py. Fix: {choices(name, names)}")
    return name


AddonName = Annotated[str, AfterValidator(_known_addon)]
AddonVersion = Annotated[str, StringConstraints(pattern=r"^v?[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9]+)*$")]
Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


Edition = Literal["ack.pro.small", "ack.pro.xlarge", "ack.pro.2xlarge", "ack.pro.4xlarge"]
"""Sizes of the managed control plane (ACK, "ACK Pro clusters", `cluster_spec`)."""


class MaintenanceSettings(Model):
    """When ACK may touch the control plane and its nodes."""

    start: Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "02:00"
    """Start of the window, HH:MM in China Standard Time (UTC+8)."""
    hours: int = Field(default=3, ge=1, le=24, strict=True)
    """Length of the window."""
    weekdays: tuple[Weekday, ...] = ("Sunday",)
    """Days on which it opens, also in China Standard Time."""


class KubernetesSettings(Model):
    """The ACK Pro managed cluster."""

    version: AckVersion | None = None
    """Kubernetes version, 1.32 to 1.36: a minor such as `1.35`, which becomes the patch that ACK offers when the
    cluster is created and then stays, or a full version such as `1.35.7-aliyun.1` to pin it. A higher one upgrades the
    control plane in place, one minor at a time; nodes follow when their pool is upgraded in ACK. If omitted: 1.35 for
    new clusters, and an existing cluster keeps its version."""
    edition: Edition = "ack.pro.small"
    """Size of the managed control plane; fixed at creation."""
    public_api_server: bool = False
    """Whether the API server is also reachable from the internet; fixed at creation."""
    proxy_mode: ProxyMode | None = None
    """kube-proxy's mode; a change replaces the cluster. If omitted: ipvs, ACK's own default, and an existing cluster
    keeps its mode. ipvs is deprecated from Kubernetes 1.35 on; nftables needs 1.35, and nodes with kernel 5.13."""
    encryption_key_id: str | None = None
    """KMS key that encrypts Secrets at rest; it can be set and changed later, but not removed."""
    control_plane_log_days: int = Field(default=30, ge=1, le=3650, strict=True)
    """Retention of the control-plane logs in SLS, in days."""
    auto_upgrade: Literal["none", "patch", "stable", "rapid"] = "none"
    """Channel of automatic upgrades. With one, `version` applies only at creation."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """When ACK may work on the cluster."""
    addon_versions: dict[AddonName, AddonVersion] = Field(default_factory=dict)
    """Minimum versions that override those in infra/ack_addons.py, by add-on name. An add-on that ACK or the console
    raised to a higher version keeps it."""
    autoscaler: Literal["goatscaler", "cluster-autoscaler"] = "goatscaler"
    """What scales node pools: ACK's instant scaling, or the cluster-autoscaler, which is slower. Only the latter lets
    empty pools grow for RDMA and for shares of GPU cores."""

    @property
    def new_version(self) -> str:
        """Kubernetes version of a cluster that is created now, with or without a patch."""
        return self.version or DEFAULT_VERSION

    @property
    def minor(self) -> int:
        """Minor of a cluster that is created now, 35 for 1.35."""
        return minor_of(self.new_version)

    @property
    def pinned(self) -> bool:
        """Whether `version` names a patch."""
        return "aliyun" in self.new_version

    @property
    def new_proxy_mode(self) -> ProxyMode:
        """kube-proxy's mode in a cluster that is created now.

        ipvs, as ACK itself has it: kube-proxy wants kernel 5.13 for nftables, and Alibaba Cloud Linux 3 has 5.10.
        """
        return self.proxy_mode or "ipvs"

    @model_validator(mode="after")
    def _proxy_mode_exists(self) -> Self:
        if self.proxy_mode == "nftables" and self.minor < NFTABLES_SINCE:
            raise ValueError(
                f"proxy_mode = 'nftables': ACK supports it from Kubernetes 1.{NFTABLES_SINCE} on, and version is"
                f" {self.new_version}. Fix: raise version to 1.{NFTABLES_SINCE}, or omit proxy_mode"
            )
        return self
