"""VPC 2016-04-28: elastic IP addresses."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from tests.api_double.account import timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks, tags
from tests.api_double.rpc.lists import page
from tests.api_double.rpc.vpc import RESOURCE_GROUP

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_FIRST_ADDRESS = IPv4Address("203.0.113.1")
"""Addresses are of the block for documentation (RFC 5737), so that nothing is ever reached by mistake."""
_ADDRESSES = 254
_MOST_MBPS = {"PayByTraffic": 200, "PayByBandwidth": 500}
_CARRIERS = {"Nat": "nat_gateway", "SlbInstance": "load_balancer", "EcsInstance": "instance"}


def _found_eip(account: Account, request: Request) -> Record:
    record = account.find("eip", request.required("AllocationId"))
    if record is None:
        raise ApiError(404, "InvalidAllocationId.NotFound", f"EIP {request.get('AllocationId')!r} does not exist.")
    return record


def _bandwidth(request: Request, charge: str, default: int) -> str:
    bandwidth = request.number("Bandwidth", default)
    if not 1 <= bandwidth <= _MOST_MBPS[charge]:
        message = f"Bandwidth {bandwidth} is not in 1..{_MOST_MBPS[charge]} for {charge}."
        raise ApiError(400, "InvalidBandwidth.Malformed", message)
    return str(bandwidth)


def _free_address(account: Account) -> str:
    taken = {record["IpAddress"] for record in account.all("eip").values()}
    for offset in range(_ADDRESSES):
        if str(_FIRST_ADDRESS + offset) not in taken:
            return str(_FIRST_ADDRESS + offset)
    raise ApiError(400, "QuotaExceeded.Eip", f"Elastic IP address quota exceeded: {_ADDRESSES}.")


def _allocate(account: Account, request: Request) -> Record:
    charge = request.one_of("InternetChargeType", tuple(_MOST_MBPS), "PayByBandwidth")
    bandwidth = _bandwidth(request, charge, 5)
    identifier, address = account.new_id("eip"), _free_address(account)
    record: Record = {
        "AllocationId": identifier,
        "IpAddress": address,
        "Name": checks.name(request.get("Name"), "Name"),
        "Description": checks.description(request.get("Description")),
        "Bandwidth": bandwidth,
        "EipBandwidth": bandwidth,
        "InternetChargeType": charge,
        "ChargeType": request.one_of("InstanceChargeType", ("PostPaid",), "PostPaid"),
        "ISP": request.one_of("ISP", ("BGP", "BGP_PRO"), "BGP"),
        "Netmode": request.one_of("Netmode", ("public",), "public"),
        "Status": "Available",
        "InstanceId": "",
        "InstanceType": "",
        "RegionId": checks.region(request.region),
        "AllocationTime": timestamp(),
        "BusinessStatus": "Normal",
        "DeletionProtection": False,
        "HDMonitorStatus": "OFF",
        "ResourceGroupId": request.get("ResourceGroupId", RESOURCE_GROUP),
        "SecurityProtectionTypes": {"SecurityProtectionType": []},
        "_tags": {},
    }
    account.add("eip", identifier, record)
    return {"AllocationId": identifier, "EipAddress": address, "ResourceGroupId": record["ResourceGroupId"]}


def _describe(account: Account, request: Request) -> Record:
    names = ("AllocationId", "EipAddress", "Status")
    keys = {"EipAddress": "IpAddress"}
    filters = {keys.get(name, name): request.get(name) for name in names if request.get(name)}
    if request.get("AssociatedInstanceId"):
        filters["InstanceId"] = request.get("AssociatedInstanceId")
    records = account.read_all("eip", lambda record: filters.items() <= record.items())
    tagged = [tags.with_tags(record, account.all("eip")[record["AllocationId"]]["_tags"]) for record in records]
    items, beside = page(request, tagged, largest=100)
    return {"EipAddresses": {"EipAddress": items}, **beside}


def _modify(account: Account, request: Request) -> Record:
    record = _found_eip(account, request)
    if request.get("Bandwidth"):
        bandwidth = _bandwidth(request, record["InternetChargeType"], 5)
        record.update(Bandwidth=bandwidth, EipBandwidth=bandwidth)
    if "Name" in request.parameters:
        record["Name"] = checks.name(request.get("Name"), "Name")
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    return {}


def _associate(account: Account, request: Request) -> Record:
    record = _found_eip(account, request)
    kind = _CARRIERS[request.one_of("InstanceType", tuple(_CARRIERS), "EcsInstance")]
    carrier = account.find(kind, request.required("InstanceId"))
    if carrier is None:
        raise ApiError(404, "InvalidInstanceId.NotFound", f"{request.get('InstanceId')!r} does not exist.")
    if record["Status"] != "Available":
        raise ApiError(400, "IncorrectEipStatus", f"{record['AllocationId']} is {record['Status']}.")
    if kind == "nat_gateway" and carrier["Status"] != "Available":
        raise ApiError(400, "IncorrectInstanceStatus", f"{request.get('InstanceId')} is {carrier['Status']}.")
    now = {
        "Status": "Associating",
        "InstanceId": request.get("InstanceId"),
        "InstanceType": request.get("InstanceType", "EcsInstance"),
        # returned only for an EIP that is bound to an address instead of a carrier
        "VpcId": "",
        "PrivateIpAddress": "",
    }
    account.begin("eip", record["AllocationId"], now, {"Status": "InUse"})
    account.use("eip", record["AllocationId"], [(kind, request.get("InstanceId"))])
    return {}


def _unassociate(account: Account, request: Request) -> Record:
    record = _found_eip(account, request)
    if record["Status"] != "InUse" or record["InstanceId"] != request.get("InstanceId", record["InstanceId"]):
        raise ApiError(400, "IncorrectEipStatus", f"{record['AllocationId']} is {record['Status']}.")
    users = [user for kind, user in account.users("eip", record["AllocationId"]) if kind == "snat_entry"]
    if users and not request.flag("Force"):
        message = f"{record['IpAddress']} is used by SNAT entry {users[0]}."
        raise ApiError(400, "InvalidIpStatus.HasBeenUsedBySnatTable", message)
    after = {"Status": "Available", "InstanceId": "", "InstanceType": ""}
    account.begin("eip", record["AllocationId"], {"Status": "Unassociating"}, after)
    account.use("eip", record["AllocationId"], [])
    return {}


def _release(account: Account, request: Request) -> Record:
    record = _found_eip(account, request)
    if record["DeletionProtection"]:
        raise ApiError(400, "OperationDenied.DeletionProtection", f"{record['AllocationId']} is protected.")
    if record["Status"] != "Available":
        raise ApiError(400, "IncorrectEipStatus", f"{record['AllocationId']} is {record['Status']}.")
    account.begin("eip", record["AllocationId"], {"Status": "Releasing"}, None)
    return {}


OPERATIONS: dict[str, Operation] = {
    "AllocateEipAddress": _allocate,
    "DescribeEipAddresses": _describe,
    "ModifyEipAddressAttribute": _modify,
    "AssociateEipAddress": _associate,
    "UnassociateEipAddress": _unassociate,
    "ReleaseEipAddress": _release,
}
