"""VPC 2016-04-28: VPCs, their route table, and vswitches."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks, tags
from tests.api_double.rpc.lists import page

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

RESOURCE_GROUP = "rg-acfmathanordouble"
_NEVER_A_VPC = [IPv4Network(block) for block in ("100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4")]
_VPC_DEPENDENCY = {"vswitch": ".VSwitch", "security_group": ".SecurityGroup", "nat_gateway": ".NatGateway"}
_VSWITCH_DEPENDENCY = {"nat_gateway": ".EnhancedNatgw", "snat_entry": ".SNAT"}


def found_vpc(account: Account, identifier: str) -> Record:
    """Return a VPC.

    Raises:
        ApiError: there is none of that id.
    """
    record = account.find("vpc", identifier)
    if record is None:
        raise ApiError(404, "InvalidVpcID.NotFound", f"Specified VPC {identifier!r} does not exist.")
    return record


def found_vswitch(account: Account, identifier: str) -> Record:
    """Return a vswitch.

    Raises:
        ApiError: there is none of that id.
    """
    record = account.find("vswitch", identifier)
    if record is None:
        raise ApiError(404, "InvalidVswitchID.NotFound", f"Specified vswitch {identifier!r} does not exist.")
    return record


def refuse_in_use(account: Account, kind: str, identifier: str, codes: dict[str, str]) -> None:
    """Refuse to delete what others use.

    Raises:
        ApiError: DependencyViolation, with the kind of the first user.
    """
    users = account.users(kind, identifier)
    if users:
        user_kind, user = users[0]
        code = f"DependencyViolation{codes.get(user_kind, '')}"
        raise ApiError(400, code, f"Specified object {identifier} has dependent resources: {user_kind} {user}.")


def _create_vpc(account: Account, request: Request) -> Record:
    block = checks.network(request.get("CidrBlock", "172.16.0.0/12"), shortest=8, longest=28)
    if any(block.overlaps(never) for never in _NEVER_A_VPC):
        raise ApiError(400, "InvalidCidrBlock.Malformed", f"CIDR block {block} is reserved by the system.")
    identifier, table, router = (account.new_id(kind) for kind in ("vpc", "route_table", "vrouter"))
    record: Record = {
        "VpcId": identifier,
        "VpcName": checks.name(request.get("VpcName"), "VpcName"),
        "Description": checks.description(request.get("Description")),
        "CidrBlock": str(block),
        "RegionId": checks.region(request.region),
        "ResourceGroupId": request.get("ResourceGroupId", RESOURCE_GROUP),
        "VRouterId": router,
        "CreationTime": timestamp(),
        "IsDefault": False,
        "ClassicLinkEnabled": False,
        "EnabledIpv6": request.flag("EnableIpv6"),
        "Ipv6CidrBlock": "",
        "DnsHostnameStatus": "ENABLED" if request.flag("EnableDnsHostname") else "DISABLED",
        "Ipv6CidrBlocks": {"Ipv6CidrBlock": []},
        "SecondaryCidrBlocks": {"SecondaryCidrBlock": []},
        "UserCidrs": {"UserCidr": [cidr for cidr in request.get("UserCidr").split(",") if cidr]},
        "OwnerId": int(account.id),
        "_route_table": {
            "RouteTableId": table,
            "RouteTableName": "",
            "Description": "",
            "RoutePropagationEnable": True,
        },
        "_tags": tags.from_request(request),
    }
    account.add("vpc", identifier, record)
    account.begin("vpc", identifier, {"Status": "Pending"}, {"Status": "Available"})
    names = {"VpcId": identifier, "VRouterId": router, "RouteTableId": table}
    return {**names, "ResourceGroupId": record["ResourceGroupId"]}


def _show_vpc(account: Account, record: Record) -> Record:
    vswitches = [name for name, vswitch in account.all("vswitch").items() if vswitch["VpcId"] == record["VpcId"]]
    kept = found_vpc(account, record["VpcId"])
    return tags.with_tags({**record, "VSwitchIds": {"VSwitchId": vswitches}}, kept["_tags"])


def _describe_vpc(account: Account, request: Request) -> Record:
    record = account.read("vpc", request.required("VpcId"))
    return _show_vpc(account, record or found_vpc(account, request.get("VpcId")))


def _describe_vpcs(account: Account, request: Request) -> Record:
    requested = set(filter(None, request.get("VpcId").split(",")))
    records = account.read_all("vpc", lambda record: not requested or record["VpcId"] in requested)
    vpcs = [_show_vpc(account, record) for record in records]
    # returned for one VPC, and not in a list
    items, beside = page(
        request, [{key: value for key, value in one.items() if key != "ClassicLinkEnabled"} for one in vpcs]
    )
    return {"Vpcs": {"Vpc": items}, **beside}


def _modify_vpc(account: Account, request: Request) -> Record:
    record = found_vpc(account, request.required("VpcId"))
    if "VpcName" in request.parameters:
        record["VpcName"] = checks.name(request.get("VpcName"), "VpcName")
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    if "EnableDnsHostname" in request.parameters:
        record["DnsHostnameStatus"] = "ENABLED" if request.flag("EnableDnsHostname") else "DISABLED"
    if request.get("CidrBlock", record["CidrBlock"]) != record["CidrBlock"]:
        refuse_in_use(account, "vpc", record["VpcId"], _VPC_DEPENDENCY)
        record["CidrBlock"] = str(checks.network(request.get("CidrBlock"), shortest=8, longest=28))
    return {}


def _delete_vpc(account: Account, request: Request) -> Record:
    identifier = found_vpc(account, request.required("VpcId"))["VpcId"]
    refuse_in_use(account, "vpc", identifier, _VPC_DEPENDENCY)
    account.begin("vpc", identifier, {"Status": "Pending"}, None)
    return {}


def _route_tables(account: Account, request: Request) -> Record:
    vpc = found_vpc(account, request.required("VpcId"))
    table = {
        **vpc["_route_table"],
        "VpcId": vpc["VpcId"],
        "RouterId": vpc["VRouterId"],
        "RouterType": "VRouter",
        "RouteTableType": "System",
        "ResourceGroupId": vpc["ResourceGroupId"],
        "Status": "Available",
        "AssociateType": "VSwitch",
        "CreationTime": vpc["CreationTime"],
    }
    items, beside = page(request, [table])
    return {"RouterTableList": {"RouterTableListType": items}, **beside}


def _modify_route_table(account: Account, request: Request) -> Record:
    for vpc in account.all("vpc").values():
        table = vpc["_route_table"]
        if table["RouteTableId"] == request.required("RouteTableId"):
            table["RouteTableName"] = request.get("RouteTableName", table["RouteTableName"])
            table["Description"] = request.get("Description", table["Description"])
            table["RoutePropagationEnable"] = request.flag(
                "RoutePropagationEnable", default=table["RoutePropagationEnable"]
            )
            return {}
    raise ApiError(404, "InvalidRouteTableId.NotFound", "Specified route table does not exist.")


def _create_vswitch(account: Account, request: Request) -> Record:
    vpc = found_vpc(account, request.required("VpcId"))
    if vpc["Status"] != "Available":
        raise ApiError(400, "TaskConflict", f"VPC {vpc['VpcId']} is {vpc['Status']}.")
    block = checks.network(request.required("CidrBlock"), shortest=16, longest=29)
    if not block.subnet_of(IPv4Network(vpc["CidrBlock"])):
        raise ApiError(400, "InvalidCidrBlock.Malformed", f"{block} is not within {vpc['CidrBlock']} of the VPC.")
    siblings = [record for record in account.all("vswitch").values() if record["VpcId"] == vpc["VpcId"]]
    overlapped = [record for record in siblings if block.overlaps(IPv4Network(record["CidrBlock"]))]
    if overlapped:
        message = f"Specified CIDR block {block} overlaps with {overlapped[0]['CidrBlock']} of another vswitch."
        raise ApiError(400, "InvalidCidrBlock.Overlapped", message)
    identifier = account.new_id("vswitch")
    record: Record = {
        "VSwitchId": identifier,
        "VpcId": vpc["VpcId"],
        "CidrBlock": str(block),
        "ZoneId": checks.zone(request.required("ZoneId"), vpc["RegionId"]),
        "VSwitchName": checks.name(request.get("VSwitchName"), "VSwitchName"),
        "Description": checks.description(request.get("Description")),
        # the first and the last three addresses are the system's
        "AvailableIpAddressCount": block.num_addresses - 4,
        "CreationTime": timestamp(),
        "Ipv6CidrBlock": "",
        "IsDefault": False,
        "ResourceGroupId": vpc["ResourceGroupId"],
        "RouteTable": {"RouteTableId": vpc["_route_table"]["RouteTableId"], "RouteTableType": "System"},
        "_tags": tags.from_request(request),
    }
    account.add("vswitch", identifier, record, uses=[("vpc", vpc["VpcId"])])
    account.begin("vswitch", identifier, {"Status": "Pending"}, {"Status": "Available"})
    return {"VSwitchId": identifier}


def _show_vswitch(account: Account, record: Record) -> Record:
    return tags.with_tags(public(record), found_vswitch(account, record["VSwitchId"])["_tags"])


def _describe_vswitch(account: Account, request: Request) -> Record:
    record = account.read("vswitch", request.required("VSwitchId"))
    return _show_vswitch(account, record or found_vswitch(account, request.get("VSwitchId")))


def _describe_vswitches(account: Account, request: Request) -> Record:
    filters = {name: request.get(name) for name in ("VSwitchId", "VpcId", "ZoneId") if request.get(name)}
    records = account.read_all("vswitch", lambda record: filters.items() <= record.items())
    items, beside = page(request, [_show_vswitch(account, record) for record in records])
    return {"VSwitches": {"VSwitch": items}, **beside}


def _modify_vswitch(account: Account, request: Request) -> Record:
    record = found_vswitch(account, request.required("VSwitchId"))
    if "VSwitchName" in request.parameters:
        record["VSwitchName"] = checks.name(request.get("VSwitchName"), "VSwitchName")
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    return {}


def _delete_vswitch(account: Account, request: Request) -> Record:
    identifier = found_vswitch(account, request.required("VSwitchId"))["VSwitchId"]
    refuse_in_use(account, "vswitch", identifier, _VSWITCH_DEPENDENCY)
    account.begin("vswitch", identifier, {"Status": "Pending"}, None)
    return {}


OPERATIONS: dict[str, Operation] = {
    "CreateVpc": _create_vpc,
    "DescribeVpcAttribute": _describe_vpc,
    "DescribeVpcs": _describe_vpcs,
    "ModifyVpcAttribute": _modify_vpc,
    "DeleteVpc": _delete_vpc,
    "DescribeRouteTableList": _route_tables,
    "ModifyRouteTableAttributes": _modify_route_table,
    "CreateVSwitch": _create_vswitch,
    "DescribeVSwitchAttributes": _describe_vswitch,
    "DescribeVSwitches": _describe_vswitches,
    "ModifyVSwitchAttribute": _modify_vswitch,
    "DeleteVSwitch": _delete_vswitch,
    **tags.operations(
        {"vpc": "vpc", "vswitch": "vswitch", "natgateway": "nat_gateway", "eip": "eip"},
        untag="UnTagResources",
        sized=True,
    ),
}
