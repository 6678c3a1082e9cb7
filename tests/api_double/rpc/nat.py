"""VPC 2016-04-28: NAT gateways and their SNAT entries."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tests.api_double.account import timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks
from tests.api_double.rpc.lists import page
from tests.api_double.rpc.vpc import RESOURCE_GROUP, found_vpc, found_vswitch

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request


def found_nat_gateway(account: Account, identifier: str) -> Record:
    """Return a NAT gateway.

    Raises:
        ApiError: there is none of that id.
    """
    record = account.find("nat_gateway", identifier)
    if record is None:
        raise ApiError(404, "InvalidNatGatewayId.NotFound", f"NAT gateway {identifier!r} does not exist.")
    return record


def _create_nat_gateway(account: Account, request: Request) -> Record:
    vpc = found_vpc(account, request.required("VpcId"))
    if request.get("NatType") != "Enhanced":
        raise ApiError(400, "InvalidNatType.NotSupported", "Only Enhanced NAT gateways can be created.")
    vswitch = found_vswitch(account, request.required("VSwitchId"))
    if vswitch["VpcId"] != vpc["VpcId"]:
        message = f"vswitch {vswitch['VSwitchId']} does not belong to VPC {vpc['VpcId']}."
        raise ApiError(400, "InvalidVSwitchId.NotBelongToVpc", message)
    if vswitch["Status"] != "Available":
        raise ApiError(400, "IncorrectStatus.VSWITCH", f"vswitch {vswitch['VSwitchId']} is {vswitch['Status']}.")
    identifier, snat, forward = (account.new_id(kind) for kind in ("nat_gateway", "snat_table", "forward_table"))
    record: Record = {
        "NatGatewayId": identifier,
        "Name": checks.name(request.get("Name"), "NatGatewayName"),
        "Description": checks.description(request.get("Description")),
        "VpcId": vpc["VpcId"],
        "RegionId": vpc["RegionId"],
        "NatType": "Enhanced",
        "Spec": "",
        "NetworkType": request.one_of("NetworkType", ("internet", "intranet"), "internet"),
        "InstanceChargeType": request.one_of("InstanceChargeType", ("PostPaid",), "PostPaid"),
        "InternetChargeType": request.one_of("InternetChargeType", ("PayByLcu", "PayBySpec"), "PayByLcu"),
        "EipBindMode": request.one_of("EipBindMode", ("MULTI_BINDED", "NAT"), "MULTI_BINDED"),
        "SnatTableIds": {"SnatTableId": [snat]},
        "ForwardTableIds": {"ForwardTableId": [forward]},
        "NatGatewayPrivateInfo": {
            "VswitchId": vswitch["VSwitchId"],
            "IzNo": vswitch["ZoneId"],
            "PrivateIpAddress": str(IPv4Network(vswitch["CidrBlock"])[10]),
        },
        "BusinessStatus": "Normal",
        "CreationTime": timestamp(),
        "DeletionProtection": False,
        "IcmpReplyEnabled": request.flag("IcmpReplyEnabled", default=True),
        "PrivateLinkEnabled": request.flag("PrivateLinkEnabled"),
        "ResourceGroupId": RESOURCE_GROUP,
    }
    uses = [("vpc", vpc["VpcId"]), ("vswitch", vswitch["VSwitchId"])]
    account.add("nat_gateway", identifier, record, uses=uses)
    account.begin("nat_gateway", identifier, {"Status": "Creating"}, {"Status": "Available"})
    return {
        "NatGatewayId": identifier,
        "SnatTableIds": {"SnatTableId": [snat]},
        "ForwardTableIds": {"ForwardTableId": [forward]},
    }


def _describe_nat_gateways(account: Account, request: Request) -> Record:
    names = ("NatGatewayId", "VpcId", "Status", "Name", "NatType")
    filters = {name: request.get(name) for name in names if request.get(name)}
    records = account.read_all("nat_gateway", lambda record: filters.items() <= record.items())
    eips = account.all("eip").values()
    for record in records:
        bound = [eip for eip in eips if eip["InstanceId"] == record["NatGatewayId"]]
        record["IpLists"] = {
            "IpList": [
                {"IpAddress": eip["IpAddress"], "AllocationId": eip["AllocationId"], "UsingStatus": "UsedBySnatTable"}
                for eip in bound
            ]
        }
    items, beside = page(request, records)
    return {"NatGateways": {"NatGateway": items}, **beside}


def _modify_nat_gateway(account: Account, request: Request) -> Record:
    record = found_nat_gateway(account, request.required("NatGatewayId"))
    if record["Status"] != "Available":
        raise ApiError(400, "IncorrectStatus.NATGW", f"The NAT gateway is {record['Status']}.")
    if "Name" in request.parameters:
        record["Name"] = checks.name(request.get("Name"), "NatGatewayName")
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    record["EipBindMode"] = request.one_of("EipBindMode", ("MULTI_BINDED", "NAT"), record["EipBindMode"])
    record["IcmpReplyEnabled"] = request.flag("IcmpReplyEnabled", default=record["IcmpReplyEnabled"])
    account.begin("nat_gateway", record["NatGatewayId"], {"Status": "Modifying"}, {"Status": "Available"})
    return {}


def _protect(account: Account, request: Request) -> Record:
    kind = {"NATGW": "nat_gateway", "EIP": "eip"}[request.one_of("Type", ("NATGW", "EIP"), "NATGW")]
    record = account.find(kind, request.required("InstanceId"))
    if record is None:
        raise ApiError(404, "InvalidInstanceId.NotFound", f"{request.get('InstanceId')!r} does not exist.")
    record["DeletionProtection"] = request.flag("ProtectionEnable")
    return {}


def _delete_nat_gateway(account: Account, request: Request) -> Record:
    record = found_nat_gateway(account, request.required("NatGatewayId"))
    identifier = record["NatGatewayId"]
    if record["DeletionProtection"]:
        raise ApiError(400, "OperationDenied.DeletionProtection", f"{identifier} is protected from deletion.")
    eips = [eip for eip in account.all("eip").values() if eip["InstanceId"] == identifier]
    entries = [entry for entry, snat in account.all("snat_entry").items() if snat["_nat"] == identifier]
    if not request.flag("Force"):
        if entries:
            raise ApiError(400, "DependencyViolation.SnatEntry", f"{identifier} has SNAT entries: {entries[0]}.")
        if eips:
            raise ApiError(400, "DependencyViolation.EIPS", f"{identifier} has EIPs: {eips[0]['AllocationId']}.")
    for entry in entries:
        account.remove("snat_entry", entry)
    for eip in eips:
        eip.update(InstanceId="", InstanceType="", Status="Available")
        account.use("eip", eip["AllocationId"], [])
    account.begin("nat_gateway", identifier, {"Status": "Deleting"}, None)
    return {}


def _nat_of_table(account: Account, table: str) -> Record:
    for record in account.all("nat_gateway").values():
        if table in record["SnatTableIds"]["SnatTableId"]:
            return record
    raise ApiError(404, "InvalidSnatTableId.NotFound", f"Specified SNAT table {table!r} does not exist.")


def _found_snat_entry(account: Account, request: Request) -> Record:
    _nat_of_table(account, request.required("SnatTableId"))
    record = account.find("snat_entry", request.required("SnatEntryId"))
    if record is None or record["SnatTableId"] != request.get("SnatTableId"):
        raise ApiError(404, "InvalidSnatEntryId.NotFound", "Specified SNAT entry does not exist.")
    return record


def _eips_of(account: Account, nat: Record, addresses: str) -> list[Record]:
    """Return the EIPs of an SNAT entry, which must all be bound to its NAT gateway by now."""
    bound_eips: list[Record] = []
    for address in addresses.split(","):
        eips = [eip for eip in account.all("eip").values() if eip["IpAddress"] == address]
        if not eips or eips[0]["InstanceId"] != nat["NatGatewayId"]:
            raise ApiError(400, "EIP_NOT_IN_GATEWAY", f"{address} is not bound to {nat['NatGatewayId']}.")
        seen = account.read("eip", eips[0]["AllocationId"])
        if seen is None or seen["Status"] != "InUse":
            raise ApiError(400, "OperationUnsupported.EipInBinding", f"{address} is still being bound.")
        bound_eips.append(eips[0])
    return bound_eips


def _create_snat_entry(account: Account, request: Request) -> Record:
    nat = _nat_of_table(account, request.required("SnatTableId"))
    if nat["Status"] != "Available":
        raise ApiError(400, "IncorrectStatus.NATGW", f"The NAT gateway is {nat['Status']}.")
    eips = _eips_of(account, nat, request.required("SnatIp"))
    uses = [("nat_gateway", nat["NatGatewayId"]), *(("eip", eip["AllocationId"]) for eip in eips)]
    source, cidr = request.get("SourceVSwitchId"), request.get("SourceCIDR")
    if bool(source) == bool(cidr):
        raise ApiError(400, "InvalidParameter", "Exactly one of SourceVSwitchId and SourceCIDR must be given.")
    if source:
        vswitch = found_vswitch(account, source)
        if vswitch["VpcId"] != nat["VpcId"]:
            message = f"vswitch {source} is not in the NAT gateway's VPC {nat['VpcId']}."
            raise ApiError(400, "InvalidSourceVSwitchId.NotInVpc", message)
        cidr = vswitch["CidrBlock"]
        uses.append(("vswitch", source))
    block = checks.network(cidr, shortest=0, longest=32)
    for entry in account.all("snat_entry").values():
        if entry["SnatTableId"] == request.get("SnatTableId") and entry["SourceCIDR"] == str(block):
            raise ApiError(
                400, "Forbidden.SourceCIDR.Duplicated", f"{block} has an SNAT entry: {entry['SnatEntryId']}."
            )
    identifier = account.new_id("snat_entry")
    record: Record = {
        "SnatEntryId": identifier,
        "SnatTableId": request.get("SnatTableId"),
        "SnatEntryName": checks.name(request.get("SnatEntryName"), "SnatEntryName"),
        "SnatIp": request.get("SnatIp"),
        "SourceVSwitchId": source,
        "SourceCIDR": str(block),
        "EipAffinity": request.get("EipAffinity", "0"),
        "_nat": nat["NatGatewayId"],
    }
    account.add("snat_entry", identifier, record, uses=uses)
    account.begin("snat_entry", identifier, {"Status": "Pending"}, {"Status": "Available"})
    return {"SnatEntryId": identifier}


def _describe_snat_entries(account: Account, request: Request) -> Record:
    _nat_of_table(account, request.required("SnatTableId"))
    names = ("SnatTableId", "SnatEntryId", "SnatIp", "SourceVSwitchId", "SourceCIDR", "SnatEntryName")
    filters = {name: request.get(name) for name in names if request.get(name)}
    records = account.read_all("snat_entry", lambda record: filters.items() <= record.items())
    items, beside = page(request, records)
    return {"SnatTableEntries": {"SnatTableEntry": items}, **beside}


def _modify_snat_entry(account: Account, request: Request) -> Record:
    record = _found_snat_entry(account, request)
    nat = found_nat_gateway(account, record["_nat"])
    _eips_of(account, nat, request.get("SnatIp", record["SnatIp"]))
    record["SnatIp"] = request.get("SnatIp", record["SnatIp"])
    record["SnatEntryName"] = checks.name(request.get("SnatEntryName", record["SnatEntryName"]), "SnatEntryName")
    record["EipAffinity"] = request.get("EipAffinity", record["EipAffinity"])
    return {}


def _delete_snat_entry(account: Account, request: Request) -> Record:
    record = _found_snat_entry(account, request)
    account.begin("snat_entry", record["SnatEntryId"], {"Status": "Deleting"}, None)
    return {}


OPERATIONS: dict[str, Operation] = {
    "CreateNatGateway": _create_nat_gateway,
    "DescribeNatGateways": _describe_nat_gateways,
    "ModifyNatGatewayAttribute": _modify_nat_gateway,
    "DeletionProtection": _protect,
    "DeleteNatGateway": _delete_nat_gateway,
    "CreateSnatEntry": _create_snat_entry,
    "DescribeSnatTableEntries": _describe_snat_entries,
    "ModifySnatEntry": _modify_snat_entry,
    "DeleteSnatEntry": _delete_snat_entry,
}
