"""NAS 2017-06-26: who may mount (access groups and their rules), and where (mount targets)."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tests.api_double.account import timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks
from tests.api_double.rpc.lists import page
from tests.api_double.rpc.nas import found_file_system
from tests.api_double.rpc.vpc import found_vpc, found_vswitch

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record, Reference
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

DEFAULT_GROUP = "DEFAULT_VPC_GROUP_NAME"
"""Every account has it: it lets everybody in the VPC in."""
_DOMAIN = {"standard": "nas", "extreme": "extreme.nas", "cpfs": "cpfs"}
_ACCESS = {"RWAccessType": ("RDWR", "RDONLY"), "UserAccessType": ("no_squash", "root_squash", "all_squash")}


def group_reference(account: Account, name: str, file_system_type: str) -> list[Reference]:
    """Return the access group that a mount target uses; the default one can always be used.

    Raises:
        ApiError: there is none of that name for that type of file system.
    """
    if name == DEFAULT_GROUP:
        return []
    found_group(account, name, file_system_type)
    return [("access_group", f"{name}:{file_system_type}")]


def found_group(account: Account, name: str, file_system_type: str) -> Record:
    """Return an access group.

    Raises:
        ApiError: there is none of that name for that type of file system.
    """
    record = account.find("access_group", f"{name}:{file_system_type}")
    if record is None:
        raise ApiError(404, "InvalidAccessGroup.NotFound", f"The specified access group {name!r} does not exist.")
    return record


def _type(request: Request) -> str:
    return request.one_of("FileSystemType", ("standard", "extreme"), "standard")


def _create_group(account: Account, request: Request) -> Record:
    name, kind = checks.name(request.required("AccessGroupName"), "AccessGroupName"), _type(request)
    if request.required("AccessGroupType") != "Vpc":
        raise ApiError(400, "InvalidAccessGroupType.NotSupported", "Only access groups of type Vpc can be created.")
    if name == DEFAULT_GROUP or account.find("access_group", f"{name}:{kind}"):
        raise ApiError(400, "InvalidAccessGroup.AlreadyExisted", f"The access group {name!r} already exists.")
    record: Record = {
        "AccessGroupName": name,
        "AccessGroupType": "Vpc",
        "FileSystemType": kind,
        "Description": checks.description(request.get("Description")),
        "CreateTime": timestamp(),
        "RegionId": request.region,
    }
    account.add("access_group", f"{name}:{kind}", record)
    return {"AccessGroupName": name}


def _describe_groups(account: Account, request: Request) -> Record:
    kind = _type(request)
    if request.get("AccessGroupName"):
        found_group(account, request.get("AccessGroupName"), kind)
    requested = {"FileSystemType": kind}
    if request.get("AccessGroupName"):
        requested["AccessGroupName"] = request.get("AccessGroupName")
    records = account.read_all("access_group", lambda record: requested.items() <= record.items())
    for record in records:
        users = account.users("access_group", f"{record['AccessGroupName']}:{kind}")
        record["RuleCount"] = sum(user == "access_rule" for user, _ in users)
        record["MountTargetCount"] = len(users) - record["RuleCount"]
    items, beside = page(request, records, largest=100)
    return {"AccessGroups": {"AccessGroup": items}, **beside}


def _modify_group(account: Account, request: Request) -> Record:
    record = found_group(account, request.required("AccessGroupName"), _type(request))
    record["Description"] = checks.description(request.get("Description"))
    return {}


def _delete_group(account: Account, request: Request) -> Record:
    name, kind = request.required("AccessGroupName"), _type(request)
    found_group(account, name, kind)
    users = account.users("access_group", f"{name}:{kind}")
    if any(user != "access_rule" for user, _ in users):
        raise ApiError(403, "InvalidAccessGroup.AlreadyAttached", f"The access group {name!r} is attached.")
    for _, rule in users:
        account.remove("access_rule", rule)
    account.remove("access_group", f"{name}:{kind}")
    return {}


def _rule_fields(request: Request, old: Record) -> Record:
    source = request.get("SourceCidrIp", old.get("SourceCidrIp", ""))
    try:
        IPv4Network(source)
    except ValueError:
        raise ApiError(400, "InvalidSourceCidrIp.Malformed", f"SourceCidrIp {source!r} is not valid.") from None
    priority = request.number("Priority", old.get("Priority", 1))
    if not 1 <= priority <= 100:
        raise ApiError(400, "InvalidPriority.OutOfBounds", f"Priority {priority} is not in 1..100.")
    names = {"RWAccessType": "RWAccess", "UserAccessType": "UserAccess"}
    access = {
        field: request.one_of(parameter, _ACCESS[parameter], old.get(field, _ACCESS[parameter][0]))
        for parameter, field in names.items()
    }
    return {"SourceCidrIp": source, "Priority": priority, **access}


def _create_rule(account: Account, request: Request) -> Record:
    group, kind = request.required("AccessGroupName"), _type(request)
    found_group(account, group, kind)
    fields = _rule_fields(request, {})
    for other in account.all("access_rule").values():
        if other["_group"] == f"{group}:{kind}" and other["SourceCidrIp"] == fields["SourceCidrIp"]:
            raise ApiError(400, "InvalidAccessRule.AlreadyExisted", f"There is a rule for {fields['SourceCidrIp']}.")
    identifier = account.new_id("access_rule")
    record: Record = {
        "AccessRuleId": identifier,
        "AccessGroupName": group,
        "FileSystemType": kind,
        "Ipv6SourceCidrIp": "",
        "RegionId": request.region,
        **fields,
        "_group": f"{group}:{kind}",
    }
    account.add("access_rule", identifier, record, uses=[("access_group", f"{group}:{kind}")])
    return {"AccessRuleId": identifier}


def _found_rule(account: Account, request: Request) -> Record:
    group, kind = request.required("AccessGroupName"), _type(request)
    record = account.find("access_rule", request.required("AccessRuleId"))
    if record is None or record["_group"] != f"{group}:{kind}":
        raise ApiError(404, "InvalidAccessRule.NotFound", f"The rule {request.get('AccessRuleId')!r} does not exist.")
    return record


def _describe_rules(account: Account, request: Request) -> Record:
    group, kind = request.required("AccessGroupName"), _type(request)
    found_group(account, group, kind)
    if request.get("AccessRuleId"):
        _found_rule(account, request)
    requested = request.get("AccessRuleId")
    records = account.read_all(
        "access_rule",
        lambda record: record["_group"] == f"{group}:{kind}" and requested in {"", record["AccessRuleId"]},
    )
    items, beside = page(request, records, largest=100)
    return {"AccessRules": {"AccessRule": items}, **beside}


def _modify_rule(account: Account, request: Request) -> Record:
    record = _found_rule(account, request)
    record.update(_rule_fields(request, record))
    return {}


def _delete_rule(account: Account, request: Request) -> Record:
    account.remove("access_rule", _found_rule(account, request)["AccessRuleId"])
    return {}


def _create_mount_target(account: Account, request: Request) -> Record:
    file_system = found_file_system(account, request.required("FileSystemId"))
    if file_system["Status"] != "Running":
        raise ApiError(400, "OperationDenied.InvalidState", f"The file system is {file_system['Status']}.")
    if request.one_of("NetworkType", ("Vpc",), "Vpc") and not request.get("VSwitchId"):
        raise ApiError(400, "MissingVSwitchId", "A mount target of network type Vpc needs a VSwitchId.")
    vpc, vswitch = (
        found_vpc(account, request.required("VpcId")),
        found_vswitch(account, request.get("VSwitchId")),
    )
    if vswitch["VpcId"] != vpc["VpcId"]:
        raise ApiError(400, "InvalidVSwitchId.NotFound", f"vswitch {vswitch['VSwitchId']} is not in {vpc['VpcId']}.")
    kind, identifier = file_system["FileSystemType"], file_system["FileSystemId"]
    group = request.get("AccessGroupName", DEFAULT_GROUP)
    uses = [("vpc", vpc["VpcId"]), ("vswitch", vswitch["VSwitchId"]), ("file_system", identifier)]
    uses += group_reference(account, group, kind)
    label = account.new_id("mount_target")
    domain = f"{identifier}-{label}.{file_system['RegionId']}.{_DOMAIN[kind]}.aliyuncs.com"
    record: Record = {
        "MountTargetDomain": domain,
        "NetworkType": "Vpc",
        "VpcId": vpc["VpcId"],
        "VswId": vswitch["VSwitchId"],
        "AccessGroup": group,
        "IPVersion": "IPv4",
        "_file_system": identifier,
    }
    account.add("mount_target", domain, record, uses=uses)
    account.begin("mount_target", domain, {"Status": "Pending"}, {"Status": "Active"})
    return {"MountTargetDomain": domain}


def _found_mount_target(account: Account, request: Request) -> Record:
    file_system = found_file_system(account, request.required("FileSystemId"))["FileSystemId"]
    record = account.find("mount_target", request.required("MountTargetDomain"))
    if record is None or record["_file_system"] != file_system:
        raise ApiError(404, "InvalidMountTarget.NotFound", f"{request.get('MountTargetDomain')!r} does not exist.")
    return record


def _describe_mount_targets(account: Account, request: Request) -> Record:
    file_system = found_file_system(account, request.required("FileSystemId"))["FileSystemId"]
    requested = request.get("MountTargetDomain")
    records = account.read_all(
        "mount_target",
        lambda record: record["_file_system"] == file_system and requested in {"", record["MountTargetDomain"]},
    )
    if requested and not records:
        raise ApiError(404, "InvalidMountTarget.NotFound", f"The mount target {requested!r} does not exist.")
    items, beside = page(request, records, largest=100)
    return {"MountTargets": {"MountTarget": items}, **beside}


def _modify_mount_target(account: Account, request: Request) -> Record:
    record = _found_mount_target(account, request)
    group = request.get("AccessGroupName", record["AccessGroup"])
    file_system = found_file_system(account, record["_file_system"])
    uses = [("vpc", record["VpcId"]), ("vswitch", record["VswId"]), ("file_system", record["_file_system"])]
    uses += group_reference(account, group, file_system["FileSystemType"])
    account.use("mount_target", record["MountTargetDomain"], uses)
    record["AccessGroup"] = group
    if request.get("Status"):
        record["Status"] = request.one_of("Status", ("Active", "Inactive"))
    return {}


def _delete_mount_target(account: Account, request: Request) -> Record:
    record = _found_mount_target(account, request)
    account.begin("mount_target", record["MountTargetDomain"], {"Status": "Deleting"}, None)
    return {}


OPERATIONS: dict[str, Operation] = {
    "CreateAccessGroup": _create_group,
    "DescribeAccessGroups": _describe_groups,
    "ModifyAccessGroup": _modify_group,
    "DeleteAccessGroup": _delete_group,
    "CreateAccessRule": _create_rule,
    "DescribeAccessRules": _describe_rules,
    "ModifyAccessRule": _modify_rule,
    "DeleteAccessRule": _delete_rule,
    "CreateMountTarget": _create_mount_target,
    "DescribeMountTargets": _describe_mount_targets,
    "ModifyMountTarget": _modify_mount_target,
    "DeleteMountTarget": _delete_mount_target,
}
