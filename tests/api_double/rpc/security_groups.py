"""ECS 2014-05-26: security groups and their rules."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks, tags
from tests.api_double.rpc.lists import page
from tests.api_double.rpc.vpc import RESOURCE_GROUP, found_vpc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_PROTOCOLS = ("tcp", "udp", "icmp", "icmpv6", "gre", "all")
_OTHER_END = {"ingress": "Source", "egress": "Dest"}
_SAME_RULE = (
    *("Direction", "IpProtocol", "PortRange", "Policy", "Priority"),
    *("SourceCidrIp", "DestCidrIp", "SourceGroupId", "DestGroupId"),
)
MOST_RULES = 200


def found_group(account: Account, identifier: str) -> Record:
    """Return a security group.

    Raises:
        ApiError: there is none of that id.
    """
    record = account.find("security_group", identifier)
    if record is None:
        raise ApiError(404, "InvalidSecurityGroupId.NotFound", f"The SecurityGroupId {identifier!r} does not exist.")
    return record


def _create(account: Account, request: Request) -> Record:
    kind = request.one_of("SecurityGroupType", ("normal", "enterprise"), "normal")
    vpc = request.get("VpcId")
    if vpc:
        found_vpc(account, vpc)
    elif kind == "enterprise":
        raise ApiError(400, "MissingParameter.VpcId", "An enterprise security group needs a VPC.")
    identifier = account.new_id("security_group")
    record: Record = {
        "SecurityGroupId": identifier,
        "SecurityGroupName": checks.name(request.get("SecurityGroupName"), "SecurityGroupName"),
        "SecurityGroupType": kind,
        "Description": checks.description(request.get("Description")),
        "VpcId": vpc,
        "ResourceGroupId": request.get("ResourceGroupId", RESOURCE_GROUP),
        "CreationTime": timestamp(),
        "ServiceManaged": False,
        "_inner_access": "Drop" if kind == "enterprise" else "Accept",
        "_rules": [],
        "_tags": tags.from_request(request),
    }
    account.add("security_group", identifier, record, uses=[("vpc", vpc)] if vpc else [])
    return {"SecurityGroupId": identifier}


def _describe(account: Account, request: Request) -> Record:
    requested = set(json.loads(request.get("SecurityGroupIds", "[]")))
    if request.get("SecurityGroupId"):
        requested.add(request.get("SecurityGroupId"))
    names = ("VpcId", "SecurityGroupName", "SecurityGroupType")
    filters = {name: request.get(name) for name in names if request.get(name)}
    asked_tags = {item.get("Key"): item.get("Value") for item in request.repeated("Tag")}
    groups = [
        record
        for identifier, record in account.all("security_group").items()
        if (not requested or identifier in requested)
        and filters.items() <= record.items()
        and asked_tags.items() <= record["_tags"].items()
    ]
    tagged = [tags.with_tags(public(record), record["_tags"], key="TagKey", value="TagValue") for record in groups]
    items, beside = page(request, tagged, largest=100)
    return {"RegionId": request.region, "SecurityGroups": {"SecurityGroup": items}, **beside}


def _describe_attribute(account: Account, request: Request) -> Record:
    record = found_group(account, request.required("SecurityGroupId"))
    direction = request.one_of("Direction", ("ingress", "egress", "all"), "all")
    rules = [rule for rule in record["_rules"] if direction in {"all", rule["Direction"]}]
    names = ("SecurityGroupId", "SecurityGroupName", "Description", "VpcId")
    return {
        **{name: record[name] for name in names},
        "RegionId": request.region,
        "InnerAccessPolicy": record["_inner_access"],
        "Permissions": {"Permission": rules},
    }


def _modify(account: Account, request: Request) -> Record:
    record = found_group(account, request.required("SecurityGroupId"))
    if "SecurityGroupName" in request.parameters:
        record["SecurityGroupName"] = checks.name(request.get("SecurityGroupName"), "SecurityGroupName")
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    return {}


def _modify_policy(account: Account, request: Request) -> Record:
    record = found_group(account, request.required("SecurityGroupId"))
    policy = request.one_of("InnerAccessPolicy", ("Accept", "Drop", "accept", "drop"))
    if record["SecurityGroupType"] == "enterprise" and policy.lower() == "accept":
        message = "Members of an enterprise security group cannot be let reach each other by its inner access policy."
        raise ApiError(400, "InvalidParameter.InnerAccessPolicy", message)
    record["_inner_access"] = policy.capitalize()
    return {}


def _delete(account: Account, request: Request) -> Record:
    identifier = found_group(account, request.required("SecurityGroupId"))["SecurityGroupId"]
    users = [reference for reference in account.users("security_group", identifier) if reference[1] != identifier]
    if users:
        kind, user = users[0]
        message = f"There is still something that uses security group {identifier}: {kind} {user}."
        raise ApiError(403, "DependencyViolation", message)
    account.remove("security_group", identifier)
    return {}


def _permissions(account: Account, request: Request, direction: str) -> list[Record]:
    """Return the rules of a call: `Permissions.n.*`, or one in the parameters themselves."""
    given = request.repeated("Permissions") or [request.parameters]
    group = found_group(account, request.required("SecurityGroupId"))
    return [_rule(account, group, direction, fields) for fields in given]


def _rule(account: Account, group: Record, direction: str, fields: Mapping[str, str]) -> Record:
    protocol, ports = fields.get("IpProtocol", "").lower(), fields.get("PortRange", "")
    if protocol not in _PROTOCOLS:
        raise ApiError(400, "InvalidIpProtocol.ValueNotSupported", f"IpProtocol {protocol!r} is not supported.")
    if not _are_ports(protocol, ports):
        raise ApiError(400, "InvalidPortRange.Malformed", f"PortRange {ports!r} does not fit {protocol}.")
    priority = fields.get("Priority", "1")
    if not priority.isdecimal() or not 1 <= int(priority) <= 100:
        raise ApiError(400, "InvalidPriority.ValueNotSupported", f"Priority {priority!r} is not in 1..100.")
    policy = fields.get("Policy", "accept").lower()
    if policy not in {"accept", "drop"}:
        raise ApiError(400, "InvalidPolicy.Malformed", f"Policy {policy!r} is neither accept nor drop.")
    other = _OTHER_END[direction]
    cidr, other_group = fields.get(f"{other}CidrIp", ""), fields.get(f"{other}GroupId", "")
    if not cidr and not other_group:
        raise ApiError(400, "MissingParameter", f"Neither {other}CidrIp nor {other}GroupId is given.")
    if cidr:
        _check_address(cidr)
    if other_group:
        _check_group(account, group, other_group)
    return {
        "Direction": direction,
        "IpProtocol": protocol.upper(),
        "PortRange": ports,
        "Policy": policy.capitalize(),
        "Priority": priority,
        "NicType": fields.get("NicType", "intranet"),
        "Description": fields.get("Description", ""),
        "SourceCidrIp": "",
        "DestCidrIp": "",
        "SourceGroupId": "",
        "DestGroupId": "",
        f"{other}CidrIp": cidr,
        f"{other}GroupId": other_group,
    }


def _are_ports(protocol: str, ports: str) -> bool:
    if protocol not in {"tcp", "udp"}:
        return ports == "-1/-1"
    first, _, last = ports.partition("/")
    return first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= 65535


def _check_address(cidr: str) -> None:
    try:
        IPv4Network(cidr)
    except ValueError:
        raise ApiError(400, "InvalidSourceCidrIp.Malformed", f"{cidr!r} is not an address block.") from None


def _check_group(account: Account, group: Record, other: str) -> None:
    if group["SecurityGroupType"] == "enterprise":
        message = "A rule of an enterprise security group cannot name a security group; name its addresses."
        raise ApiError(403, "InvalidParamter.Conflict", message)
    if found_group(account, other)["VpcId"] != group["VpcId"]:
        raise ApiError(403, "AuthorizationFailure", f"Security group {other} is in another VPC.")


def _key(rule: Record) -> list[str]:
    return [rule[name] for name in _SAME_RULE]


def _authorize(direction: str) -> Operation:
    def authorize(account: Account, request: Request) -> Record:
        group = found_group(account, request.required("SecurityGroupId"))
        for rule in _permissions(account, request, direction):
            # a rule that exists already is not an error, and does not exist twice
            if _key(rule) in [_key(existing) for existing in group["_rules"]]:
                continue
            if len(group["_rules"]) >= MOST_RULES:
                raise ApiError(403, "AuthorizationLimitExceed", f"A group holds at most {MOST_RULES} rules.")
            identifier = account.new_id("security_group_rule")
            group["_rules"].append({"SecurityGroupRuleId": identifier, "CreateTime": timestamp(), **rule})
        _note_uses(account, group)
        return {}

    return authorize


def _revoke(direction: str) -> Operation:
    def revoke(account: Account, request: Request) -> Record:
        group = found_group(account, request.required("SecurityGroupId"))
        named = request.values("SecurityGroupRuleId")
        gone = [] if named else [_key(rule) for rule in _permissions(account, request, direction)]
        group["_rules"] = [
            rule
            for rule in group["_rules"]
            if rule["Direction"] != direction or (rule["SecurityGroupRuleId"] not in named and _key(rule) not in gone)
        ]
        _note_uses(account, group)
        return {}

    return revoke


def _modify_rule(direction: str) -> Operation:
    def modify(account: Account, request: Request) -> Record:
        group = found_group(account, request.required("SecurityGroupId"))
        requested = _rule(account, group, direction, request.parameters)
        rules = [rule for rule in group["_rules"] if _key(rule) == _key(requested)]
        if not rules:
            raise ApiError(404, "InvalidSecurityGroupRule.NotFound", "The specified rule does not exist.")
        rules[0]["Description"] = requested["Description"]
        return {}

    return modify


def _note_uses(account: Account, group: Record) -> None:
    others = {rule[name] for rule in group["_rules"] for name in ("SourceGroupId", "DestGroupId") if rule[name]}
    vpc = [("vpc", group["VpcId"])] if group["VpcId"] else []
    account.use("security_group", group["SecurityGroupId"], [*vpc, *(("security_group", other) for other in others)])


OPERATIONS: dict[str, Operation] = {
    "CreateSecurityGroup": _create,
    "DescribeSecurityGroups": _describe,
    "DescribeSecurityGroupAttribute": _describe_attribute,
    "ModifySecurityGroupAttribute": _modify,
    "ModifySecurityGroupPolicy": _modify_policy,
    "DeleteSecurityGroup": _delete,
    "AuthorizeSecurityGroup": _authorize("ingress"),
    "AuthorizeSecurityGroupEgress": _authorize("egress"),
    "ModifySecurityGroupRule": _modify_rule("ingress"),
    "ModifySecurityGroupEgressRule": _modify_rule("egress"),
    "RevokeSecurityGroup": _revoke("ingress"),
    "RevokeSecurityGroupEgress": _revoke("egress"),
}
