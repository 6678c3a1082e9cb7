"""NAS 2017-06-26: file systems, standard, extreme and CPFS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks, tags
from tests.api_double.rpc.lists import page
from tests.api_double.rpc.vpc import RESOURCE_GROUP, found_vpc, found_vswitch

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_STORAGE = {
    "standard": ("Performance", "Capacity", "Premium"),
    "extreme": ("standard", "advance"),
    "cpfs": ("advance_100", "advance_200"),
}
_PROTOCOLS = {"standard": ("NFS", "SMB"), "extreme": ("NFS",), "cpfs": ("cpfs",)}
_SMALLEST_GIB = {"standard": 0, "extreme": 100, "cpfs": 3600}
_STANDARD_GIB = 10 * 1024 * 1024
"""A standard file system grows by itself up to 10 PiB, which it states as its capacity."""
_ID_PREFIX = {"standard": "", "extreme": "extreme-", "cpfs": "cpfs-"}


def found_file_system(account: Account, identifier: str) -> Record:
    """Return a file system.

    Raises:
        ApiError: there is none of that id.
    """
    record = account.find("file_system", identifier)
    if record is None:
        raise ApiError(404, "InvalidFileSystem.NotFound", f"The specified file system {identifier!r} does not exist.")
    return record


def _one_of(request: Request, parameter: str, allowed: tuple[str, ...]) -> str:
    value = request.required(parameter)
    if value not in allowed:
        message = f"{parameter} {value!r} is not one of {', '.join(allowed)}."
        raise ApiError(400, f"Invalid{parameter}.NotSupported", message)
    return value


def _create(account: Account, request: Request) -> Record:
    kind = request.one_of("FileSystemType", tuple(_STORAGE), "standard")
    capacity = request.number("Capacity", 0)
    if capacity < _SMALLEST_GIB[kind]:
        message = f"Capacity {capacity} GiB is below {_SMALLEST_GIB[kind]} GiB of {kind} file systems."
        raise ApiError(400, "InvalidCapacity.OutOfBounds", message)
    zones = checks.zones(request.region)
    zone = checks.zone(request.get("ZoneId", zones[0] if kind == "standard" else ""), request.region)
    uses = _network(account, request, kind)
    identifier = _ID_PREFIX[kind] + account.new_id("file_system")
    record: Record = {
        "FileSystemId": identifier,
        "FileSystemType": kind,
        "StorageType": _one_of(request, "StorageType", _STORAGE[kind]),
        "ProtocolType": _one_of(request, "ProtocolType", _PROTOCOLS[kind]),
        "Capacity": _STANDARD_GIB if kind == "standard" else capacity,
        "Description": checks.description(request.get("Description")),
        "EncryptType": int(request.one_of("EncryptType", ("0", "1", "2"), "0")),
        "KMSKeyId": request.get("KmsKeyId"),
        "ChargeType": "PayAsYouGo",
        "CreateTime": timestamp(),
        "RegionId": request.region,
        "ZoneId": zone,
        "VpcId": request.get("VpcId"),
        "QuorumVswId": request.get("VSwitchId"),
        "ResourceGroupId": request.get("ResourceGroupId", RESOURCE_GROUP),
        "RedundancyType": request.one_of("RedundancyType", ("LRS", "ZRS"), "LRS"),
        "MeteredSize": 0,
        "Options": {"EnableOplock": False},
        "_nfs_acl": False,
        "_recycle_bin": {"Status": "Disable", "ReservedDays": 0, "EnableTime": "", "Size": 0, "SecondarySize": 0},
        "_tags": tags.from_request(request),
    }
    account.add("file_system", identifier, record, uses=uses)
    account.begin("file_system", identifier, {"Status": "Pending"}, {"Status": "Running"})
    return {"FileSystemId": identifier}


def _network(account: Account, request: Request, kind: str) -> list[tuple[str, str]]:
    """Return what of the network the file system is put into; CPFS needs a place of its own."""
    if kind != "cpfs":
        return []
    vpc = found_vpc(account, request.required("VpcId"))
    vswitch = found_vswitch(account, request.required("VSwitchId"))
    if vswitch["VpcId"] != vpc["VpcId"] or vswitch["ZoneId"] != request.get("ZoneId"):
        message = f"vswitch {vswitch['VSwitchId']} is not in VPC {vpc['VpcId']} and zone {request.get('ZoneId')!r}."
        raise ApiError(400, "InvalidVSwitchId.NotFound", message)
    return [("vswitch", vswitch["VSwitchId"]), ("vpc", vpc["VpcId"])]


def _describe(account: Account, request: Request) -> Record:
    if request.get("FileSystemId"):
        found_file_system(account, request.get("FileSystemId"))
    names = ("FileSystemId", "VpcId")
    filters = {name: request.get(name) for name in names if request.get(name)}
    kind = request.get("FileSystemType", "all")
    records = account.read_all(
        "file_system",
        lambda record: filters.items() <= record.items() and kind in {"all", record["FileSystemType"]},
    )
    if request.get("FileSystemId") and not records:
        found_file_system(account, request.get("FileSystemId"))
    targets = account.all("mount_target").values()
    for record in records:
        record["MountTargets"] = {
            "MountTarget": [
                _mount_target(target) for target in targets if target["_file_system"] == record["FileSystemId"]
            ]
        }
    tagged = [tags.with_tags(record, found_file_system(account, record["FileSystemId"])["_tags"]) for record in records]
    items, beside = page(request, tagged, largest=100)
    return {"FileSystems": {"FileSystem": items}, **beside}


def _mount_target(record: Record) -> Record:
    """Return a mount target as part of its file system: the group under another name than DescribeMountTargets."""
    names = {"AccessGroup": "AccessGroupName", "IPVersion": None}
    renamed = {names.get(name, name): value for name, value in public(record).items()}
    return {name: value for name, value in renamed.items() if name is not None}


def _modify(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    if "Description" in request.parameters:
        record["Description"] = checks.description(request.get("Description"))
    return {}


def _upgrade(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    capacity = request.number("Capacity", 0)
    if record["FileSystemType"] == "standard" or capacity <= record["Capacity"]:
        message = f"Capacity {capacity} GiB is not more than {record['Capacity']} GiB."
        raise ApiError(400, "InvalidCapacity.OutOfBounds", message)
    after = {"Status": "Running", "Capacity": capacity}
    account.begin("file_system", record["FileSystemId"], {"Status": "Extending"}, after)
    return {}


def _delete(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    users = account.users("file_system", record["FileSystemId"])
    if users:
        message = f"The file system {record['FileSystemId']} still has {users[0][0]} {users[0][1]}."
        raise ApiError(403, "VolumeStatusForbidOperation", message)
    account.begin("file_system", record["FileSystemId"], {"Status": "Stopping"}, None)
    return {}


def _recycle_bin(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    return {"RecycleBinAttribute": record["_recycle_bin"]}


def _set_recycle_bin(status: Literal["Enable", "Disable"] | None) -> Operation:
    def change(account: Account, request: Request) -> Record:
        bin_: Record = found_file_system(account, request.required("FileSystemId"))["_recycle_bin"]
        bin_["Status"] = status or bin_["Status"]
        bin_["ReservedDays"] = 0 if status == "Disable" else request.number("ReservedDays", 3)
        bin_["EnableTime"] = timestamp() if status == "Enable" else bin_["EnableTime"]
        return {}

    return change


def _nfs_acl(account: Account, request: Request) -> Record:
    return {"Acl": {"Enabled": found_file_system(account, request.required("FileSystemId"))["_nfs_acl"]}}


def _set_nfs_acl(*, enabled: bool) -> Operation:
    def change(account: Account, request: Request) -> Record:
        found_file_system(account, request.required("FileSystemId"))["_nfs_acl"] = enabled
        return {}

    return change


def _smb_acl(account: Account, request: Request) -> Record:
    record = found_file_system(account, request.required("FileSystemId"))
    if record["ProtocolType"] != "SMB":
        raise ApiError(400, "InvalidProtocolType.NotSupported", f"{record['FileSystemId']} is not an SMB file system.")
    names = ("EnableAnonymousAccess", "Enabled", "EncryptData", "RejectUnencryptedAccess")
    return {"Acl": {**dict.fromkeys(names, False), "HomeDirPath": "", "SuperAdminSid": ""}}


OPERATIONS: dict[str, Operation] = {
    "CreateFileSystem": _create,
    "DescribeFileSystems": _describe,
    "ModifyFileSystem": _modify,
    "UpgradeFileSystem": _upgrade,
    "DeleteFileSystem": _delete,
    "GetRecycleBinAttribute": _recycle_bin,
    "EnableRecycleBin": _set_recycle_bin("Enable"),
    "DisableAndCleanRecycleBin": _set_recycle_bin("Disable"),
    "UpdateRecycleBinAttribute": _set_recycle_bin(None),
    "DescribeNfsAcl": _nfs_acl,
    "EnableNfsAcl": _set_nfs_acl(enabled=True),
    "DisableNfsAcl": _set_nfs_acl(enabled=False),
    "DescribeSmbAcl": _smb_acl,
    **tags.operations({"filesystem": "file_system"}, untag="UntagResources"),
}
