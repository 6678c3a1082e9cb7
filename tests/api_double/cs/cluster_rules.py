"""What ACK refuses of a cluster."""

from __future__ import annotations

import re
from datetime import datetime
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from tests.api_double.cs.addon_catalogue import NETWORK_ADDONS, TERWAY
from tests.api_double.cs.body import items
from tests.api_double.cs.versions import check_creatable, creatable, parsed
from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record

SPECS = ("ack.standard", "ack.pro.small", "ack.pro.xlarge", "ack.pro.2xlarge", "ack.pro.4xlarge")
PROXY_MODES = ("ipvs", "iptables", "nftables")
_NFTABLES_SINCE = (1, 35)
"""terraform-provider-alicloud 1.285.0, cs_managed_kubernetes, `proxy_mode`."""
_CHANNELS = ("patch", "stable", "rapid")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAME = re.compile(r"[A-Za-z0-9\u4e00-\u9fff][A-Za-z0-9\u4e00-\u9fff-]{0,62}")


def check(account: Account, body: dict[str, Any]) -> None:
    """Refuse a cluster that could not be created.

    Raises:
        ApiError: the first thing that is wrong with it.
    """
    _check_name(account, body.get("name") or "")
    _one_of("ClusterType", body.get("cluster_type"), ("ManagedKubernetes",))
    _one_of("Profile", body.get("profile"), ("Default",))
    _one_of("ClusterSpec", body.get("cluster_spec"), SPECS)
    version = body.get("kubernetes_version") or creatable(account)[0]
    check_creatable(account, version)
    _check_proxy_mode(body.get("proxy_mode"), version)
    check_operations(body)
    vpc = account.find("vpc", body.get("vpcid") or "")
    if vpc is None:
        raise ApiError(400, "InvalidVpcId.NotFound", f"VPC {body.get('vpcid')!r} not found")
    zones = check_vswitches(account, vpc["VpcId"], items(body, "vswitch_ids"), "vswitch_ids")
    _check_pods(account, vpc["VpcId"], zones, body)
    check_security_group(account, body.get("security_group_id"), vpc["VpcId"])
    _check_services(vpc, body.get("service_cidr") or "")
    if body.get("snat_entry"):
        raise refuse("SnatEntry", "a cluster gets no NAT gateway here: declare it, and no new_nat_gateway")


def check_operations(body: dict[str, Any]) -> None:
    """Refuse a maintenance window or a channel of upgrades that ACK does not have.

    Source: terraform-provider-alicloud 1.285.0, cs_managed_kubernetes, `maintenance_window` and `operation_policy`.

    Raises:
        ApiError: it is.
    """
    window: dict[str, Any] = body.get("maintenance_window") or {}
    if window.get("enable"):
        _check_window(window)
    policy: dict[str, Any] = body.get("operation_policy") or {}
    upgrade: dict[str, Any] = policy.get("cluster_auto_upgrade") or {}
    if upgrade.get("enabled"):
        _one_of("Channel", upgrade.get("channel"), _CHANNELS)


def refuse(field: str, message: str) -> ApiError:
    """Return the error of a wrong field."""
    return ApiError(400, f"InvalidParameter.{field}", message)


def check_vswitches(account: Account, vpc_id: str, vswitch_ids: list[str], field: str) -> list[str]:
    """Return the zones of vswitches that are there and in the VPC.

    Raises:
        ApiError: there is none, or one of them is unknown or elsewhere.
    """
    if not vswitch_ids:
        raise refuse("VswitchIds", f"{field} can not be empty")
    zones: list[str] = []
    for vswitch_id in vswitch_ids:
        vswitch = account.find("vswitch", vswitch_id)
        if vswitch is None:
            raise ApiError(400, "InvalidVSwitchId.NotFound", f"VSwitch {vswitch_id} not found")
        if vswitch["VpcId"] != vpc_id:
            raise refuse("VswitchIds", f"{field}: VSwitch {vswitch_id} is not in VPC {vpc_id}")
        zones.append(vswitch["ZoneId"])
    return zones


def check_security_group(account: Account, group_id: str | None, vpc_id: str) -> None:
    """Refuse a security group that is unknown or of another VPC.

    Raises:
        ApiError: it is.
    """
    if not group_id:
        return
    group = account.find("security_group", group_id)
    if group is None:
        raise ApiError(400, "InvalidSecurityGroupId.NotFound", f"security group {group_id} not found")
    if group["VpcId"] != vpc_id:
        raise refuse("SecurityGroupId", f"security group {group_id} is not in VPC {vpc_id}")


def _check_proxy_mode(mode: str | None, version: str) -> None:
    _one_of("ProxyMode", mode, PROXY_MODES)
    if mode == "nftables" and parsed(version)[:2] < _NFTABLES_SINCE:
        raise refuse("ProxyMode", f"proxy mode nftables is not supported by kubernetes {version}")


def _check_window(window: dict[str, Any]) -> None:
    start = window.get("maintenance_time") or ""
    try:
        zone = datetime.fromisoformat(start).tzinfo
    except ValueError:
        zone = None
    if zone is None:
        raise refuse("MaintenanceTime", f"maintenance_time {start!r} is not an RFC 3339 time with its zone")
    if not re.fullmatch(r"([1-9]|1\d|2[0-4])h", window.get("duration") or ""):
        raise refuse("Duration", f"duration {window.get('duration')!r} is not 1h to 24h")
    for day in (window.get("weekly_period") or "").split(","):
        _one_of("WeeklyPeriod", day, _DAYS)


def _one_of(field: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value and value not in allowed:
        raise refuse(field, f"{value!r} is not one of {', '.join(allowed)}")


def _check_name(account: Account, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise refuse("Name", f"cluster name {name!r}: 1 to 63 letters, digits and hyphens, no hyphen first")
    if any(cluster["name"] == name for cluster in account.all("cluster").values()):
        raise ApiError(400, "ErrorClusterNameAlreadyExist", f"cluster name {name} already exists")


def _check_pods(account: Account, vpc_id: str, zones: list[str], body: dict[str, Any]) -> None:
    network = [addon["name"] for addon in items(body, "addons") if addon["name"] in NETWORK_ADDONS]
    if len(network) != 1:
        raise refuse("Addons", f"exactly one network addon of {', '.join(NETWORK_ADDONS)} is needed, not {network}")
    pod_vswitch_ids = items(body, "pod_vswitch_ids")
    if network == [TERWAY]:
        pod_zones = check_vswitches(account, vpc_id, pod_vswitch_ids, "pod_vswitch_ids")
        missing = sorted(set(zones) - set(pod_zones))
        if missing:
            raise refuse("PodVswitchIds", f"no pod vswitch in zone {', '.join(missing)}")
    elif not body.get("container_cidr"):
        raise refuse("ContainerCidr", f"{network[0]} needs container_cidr")


def _check_services(vpc: Record, service_cidr: str) -> None:
    if not service_cidr:
        raise refuse("ServiceCidr", "service_cidr can not be empty")
    if IPv4Network(service_cidr).overlaps(IPv4Network(vpc["CidrBlock"])):
        raise refuse("ServiceCidr", f"service_cidr {service_cidr} overlaps the VPC's {vpc['CidrBlock']}")
