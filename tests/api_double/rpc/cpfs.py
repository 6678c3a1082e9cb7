"""NAS 2017-06-26: the protocol service that serves a CPFS over NFS, and its mount targets ("exports")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks
from tests.api_double.rpc.nas import found_file_system
from tests.api_double.rpc.nas_access import DEFAULT_GROUP
from tests.api_double.rpc.vpc import found_vpc, found_vswitch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request


def _running_cpfs(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    if record["FileSystemType"] != "cpfs":
        raise ApiError(400, "InvalidFileSystemType.NotSupported", f"{record['FileSystemId']} is not a CPFS.")
    if record["Status"] != "Running":
        raise ApiError(400, "OperationDenied.InvalidState", f"{record['FileSystemId']} is {record['Status']}.")
    return record


def _create_service(account: Account, request: Request) -> Record:
    file_system = _running_cpfs(account, request)["FileSystemId"]
    if account.users("file_system", file_system) and _services(account, file_system):
        raise ApiError(400, "OperationDenied.ConflictOperation", f"{file_system} has a protocol service.")
    place = _place(account, request, [request.get("VSwitchId")])
    identifier = account.new_id("protocol_service")
    record: Record = {
        "ProtocolServiceId": identifier,
        "FileSystemId": file_system,
        "ProtocolType": request.one_of("ProtocolType", ("NFS",), "NFS"),
        "ProtocolSpec": request.one_of("ProtocolSpec", ("General", "CL1", "CL2")),
        "ProtocolThroughput": request.number("Throughput", 8000),
        "Description": checks.description(request.get("Description")),
        "CreateTime": timestamp(),
        "ModifyTime": timestamp(),
        "MountTargetCount": 0,
        "VpcId": request.get("VpcId"),
        "VSwitchId": request.get("VSwitchId"),
    }
    account.add("protocol_service", identifier, record, uses=[("file_system", file_system), *place])
    account.begin("protocol_service", identifier, {"Status": "CREATING"}, {"Status": "Running"})
    return {"ProtocolServiceId": identifier}


def _services(account: Account, file_system: str) -> list[str]:
    return [
        identifier
        for identifier, record in account.all("protocol_service").items()
        if record["FileSystemId"] == file_system
    ]


def _place(account: Account, request: Request, vswitches: Sequence[str]) -> list[tuple[str, str]]:
    place: list[tuple[str, str]] = []
    if request.get("VpcId"):
        place.append(("vpc", found_vpc(account, request.get("VpcId"))["VpcId"]))
    for identifier in vswitches:
        if identifier:
            vswitch = found_vswitch(account, identifier)
            if vswitch["VpcId"] != request.get("VpcId"):
                raise ApiError(400, "InvalidVSwitchId.NotFound", f"{identifier} is not in {request.get('VpcId')!r}.")
            place.append(("vswitch", identifier))
    return place


def _describe_services(account: Account, request: Request) -> Record:
    file_system = found_file_system(account, request.required("FileSystemId"))["FileSystemId"]
    requested = set(filter(None, request.get("ProtocolServiceIds").split(",")))
    records = account.read_all(
        "protocol_service",
        lambda record: (
            record["FileSystemId"] == file_system and (not requested or record["ProtocolServiceId"] in requested)
        ),
    )
    return {"ProtocolServices": records}


def _found_service(account: Account, request: Request) -> Record:
    found_file_system(account, request.required("FileSystemId"))
    record = account.find("protocol_service", request.required("ProtocolServiceId"))
    if record is None or record["FileSystemId"] != request.get("FileSystemId"):
        raise ApiError(404, "Resource.NotFound", f"Protocol service {request.get('ProtocolServiceId')!r} not found.")
    return record


def _modify_service(account: Account, request: Request) -> Record:
    _found_service(account, request)["Description"] = checks.description(request.get("Description"))
    return {}


def _delete_service(account: Account, request: Request) -> Record:
    identifier = _found_service(account, request)["ProtocolServiceId"]
    users = account.users("protocol_service", identifier)
    if users:
        message = f"The protocol service {identifier} has mount targets: {users[0][1]}."
        raise ApiError(400, "OperationDenied.InvalidState", message)
    account.begin("protocol_service", identifier, {"Status": "DELETING"}, None)
    return {}


def _create_export(account: Account, request: Request) -> Record:
    service = _found_service(account, request)
    if service["Status"] != "Running":
        raise ApiError(400, "OperationDenied.InvalidState", f"The protocol service is {service['Status']}.")
    group = request.get("AccessGroupName", DEFAULT_GROUP)
    if group != DEFAULT_GROUP:
        # a CPFS knows the one access group only
        raise ApiError(404, "InvalidAccessGroup.NotFound", f"The access group {group!r} does not exist for CPFS.")
    if not request.get("VpcId") or not (request.get("VSwitchId") or request.values("VSwitchIds")):
        raise ApiError(400, "InvalidParameter", "VpcId and a vswitch are mandatory.")
    identifier = account.new_id("export")
    domain = f"{service['FileSystemId']}-{identifier}.{request.region}.cpfs.aliyuncs.com"
    record: Record = {
        "ExportId": identifier,
        "ProtocolServiceId": service["ProtocolServiceId"],
        "ProtocolMountTargetDomain": domain,
        "Path": request.get("Path", "/"),
        "FsetId": request.get("FsetId"),
        "AccessGroupName": group,
        "Description": checks.description(request.get("Description")),
        "VpcId": request.get("VpcId"),
        "VSwitchId": request.get("VSwitchId"),
        "VSwitchIds": request.values("VSwitchIds"),
        "CreateTime": timestamp(),
        "_file_system": service["FileSystemId"],
    }
    place = _place(account, request, [request.get("VSwitchId"), *request.values("VSwitchIds")])
    uses = [("protocol_service", service["ProtocolServiceId"]), *place]
    account.add("export", identifier, record, uses=uses)
    account.begin("export", identifier, {"Status": "CREATING"}, {"Status": "AVAILABLE"})
    return {"ExportId": identifier}


def _found_export(account: Account, request: Request) -> Record:
    record = account.find("export", request.required("ExportId"))
    if record is None or record["ProtocolServiceId"] != request.required("ProtocolServiceId"):
        raise ApiError(404, "Resource.NotFound", f"The export {request.get('ExportId')!r} is not found.")
    return record


def _get_export(account: Account, request: Request) -> Record:
    _found_export(account, request)
    export = account.read("export", request.get("ExportId")) or public(_found_export(account, request))
    # asked for by its service, it is returned without
    del export["ProtocolServiceId"]
    return {"ProtocolMountTarget": export}


def _describe_exports(account: Account, request: Request) -> Record:
    file_system = found_file_system(account, request.required("FileSystemId"))["FileSystemId"]
    exports = account.read_all("export", lambda record: record["_file_system"] == file_system)
    return {"ProtocolMountTargets": exports}


def _modify_export(account: Account, request: Request) -> Record:
    _found_export(account, request)["Description"] = checks.description(request.get("Description"))
    return {}


def _delete_export(account: Account, request: Request) -> Record:
    account.begin("export", _found_export(account, request)["ExportId"], {"Status": "DELETING"}, None)
    return {}


OPERATIONS: dict[str, Operation] = {
    "CreateProtocolService": _create_service,
    "DescribeProtocolService": _describe_services,
    "ModifyProtocolService": _modify_service,
    "DeleteProtocolService": _delete_service,
    "CreateProtocolMountTarget": _create_export,
    "DescribeProtocolMountTarget": _describe_exports,
    "GetProtocolMountTarget": _get_export,
    "ModifyProtocolMountTarget": _modify_export,
    "DeleteProtocolMountTarget": _delete_export,
}
