"""What ACK refuses of a cluster."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from tools.api_double.cs.addon_catalogue import NETWORK_ADDONS, TERWAY
from tools.api_double.cs.body import items
from tools.api_double.cs.versions import check_known
from tools.api_double.protocol import ApiError

if TYPE_CHECKING:
    from tools.api_double.account import Account, Record

SPECS = ("ack.standard", "ack.pro.small", "ack.pro.xlarge", "ack.pro.2xlarge", "ack.pro.4xlarge")
PROXY_MODES = ("ipvs", "iptables", "nftables")
_NAME = re.compile(r"[A-Za-z0-9\u4e00-\u9fff][A-Za-z0-9\u4e00-\u9fff-]{0,62}")


def check(account: Account, body: dict[str, Any]) -> None:
    """Refuse a cluster that could not be made.

    Raises:
        ApiError: the first thing that is wrong with it.
    """
    _check_name(account, body.get("name") or "")
    _one_of("ClusterType", body.get("cluster_type"), ("ManagedKubernetes",))
    _one_of("Profile", body.get("profile"), ("Default",))
    _one_of("ClusterSpec", body.get("cluster_spec"), SPECS)
    _one_of("ProxyMode", body.get("proxy_mode"), PROXY_MODES)
    if body.get("kubernetes_version"):
        check_known(body["kubernetes_version"])
    vpc = account.find("vpc", body.get("vpcid") or "")
    if vpc is None:
        raise ApiError(400, "InvalidVpcId.NotFound", f"VPC {body.get('vpcid')!r} not found")
    zones = check_vswitches(account, vpc["VpcId"], items(body, "vswitch_ids"), "vswitch_ids")
    _check_pods(account, vpc["VpcId"], zones, body)
    check_security_group(account, body.get("security_group_id"), vpc["VpcId"])
    _check_services(vpc, body.get("service_cidr") or "")
    if body.get("snat_entry"):
        raise refuse("SnatEntry", "this double makes no NAT gateway with a cluster: declare it, and no new_nat_gateway")


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
