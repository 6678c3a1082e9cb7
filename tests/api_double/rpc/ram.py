"""RAM 2015-05-01: roles, policies, and which role has which policy."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import ram_documents, tags

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_ROLE_NAME = re.compile(r"[A-Za-z0-9.-]{1,64}")
_POLICY_NAME = re.compile(r"[A-Za-z0-9-]{1,128}")
_SYSTEM_POLICY = re.compile(r"Aliyun\w+|AdministratorAccess|ReadOnlyAccess")
_MOST_VERSIONS = 5
_ROTATE = "DeleteOldestNonDefaultVersionWhenLimitExceeded"


def found_role(account: Account, name: str) -> Record:
    """Return a role.

    Raises:
        ApiError: there is none of that name.
    """
    record = account.find("role", name)
    if record is None:
        raise ApiError(404, "EntityNotExist.Role", f"The role not exists: {name}.")
    return record


def _found_policy(account: Account, request: Request) -> Record:
    record = account.find("policy", request.required("PolicyName"))
    if record is None:
        raise ApiError(404, "EntityNotExist.Policy", f"The policy not exists: {request.get('PolicyName')}.")
    return record


def _without(record: Record, *names: str) -> Record:
    """Return an object as an operation answers that leaves some fields out."""
    return {name: value for name, value in public(record).items() if name not in names}


def _duration(value: str) -> int:
    if not value.isdecimal() or not 3600 <= int(value) <= 43200:
        message = f"MaxSessionDuration {value!r} is not in 3600..43200 seconds."
        raise ApiError(400, "InvalidParameter.MaxSessionDuration", message)
    return int(value)


def _own_tags(request: Request) -> dict[str, str]:
    """Return the tags of a call, which this product takes as a JSON list, too."""
    if request.get("Tag"):
        return tags.checked({item["Key"]: item["Value"] for item in json.loads(request.get("Tag"))})
    return tags.from_request(request)


def _create_role(account: Account, request: Request) -> Record:
    name = request.required("RoleName")
    if not _ROLE_NAME.fullmatch(name):
        raise ApiError(400, "InvalidParameter.RoleName.InvalidChars", f"The role name {name!r} is not valid.")
    if account.find("role", name) is not None:
        raise ApiError(409, "EntityAlreadyExists.Role", f"The role {name} already exists.")
    document = request.required("AssumeRolePolicyDocument")
    ram_documents.check_trust(document)
    record: Record = {
        "RoleName": name,
        "RoleId": f"3{account.new_id('role')}",
        "Arn": f"acs:ram::{account.id}:role/{name.lower()}",
        "Description": request.get("Description"),
        "AssumeRolePolicyDocument": document,
        "MaxSessionDuration": _duration(request.get("MaxSessionDuration", "3600")),
        "CreateDate": timestamp(),
        "UpdateDate": timestamp(),
        "_tags": _own_tags(request),
    }
    return {"Role": _without(account.add("role", name, record), "UpdateDate")}


def _get_role(account: Account, request: Request) -> Record:
    return {"Role": public(found_role(account, request.required("RoleName")))}


def _update_role(account: Account, request: Request) -> Record:
    record = found_role(account, request.required("RoleName"))
    if "NewDescription" in request.parameters:
        record["Description"] = request.get("NewDescription")
    if request.get("NewMaxSessionDuration"):
        record["MaxSessionDuration"] = _duration(request.get("NewMaxSessionDuration"))
    if request.get("NewAssumeRolePolicyDocument"):
        ram_documents.check_trust(request.get("NewAssumeRolePolicyDocument"))
        record["AssumeRolePolicyDocument"] = request.get("NewAssumeRolePolicyDocument")
    record["UpdateDate"] = timestamp()
    return {"Role": public(record)}


def _delete_role(account: Account, request: Request) -> Record:
    name = found_role(account, request.required("RoleName"))["RoleName"]
    if _attached(account, role=name):
        raise ApiError(409, "DeleteConflict.Role.Policy", f"The role {name} has policies. Detach them first.")
    account.remove("role", name)
    return {}


def _create_policy(account: Account, request: Request) -> Record:
    name = request.required("PolicyName")
    if not _POLICY_NAME.fullmatch(name):
        raise ApiError(400, "InvalidParameter.PolicyName.InvalidChars", f"The policy name {name!r} is not valid.")
    if account.find("policy", name) is not None:
        raise ApiError(409, "EntityAlreadyExists.Policy", f"The policy {name} already exists.")
    document = request.required("PolicyDocument")
    ram_documents.check_policy(document)
    record: Record = {
        "PolicyName": name,
        "PolicyType": "Custom",
        "Description": request.get("Description"),
        "CreateDate": timestamp(),
        "UpdateDate": timestamp(),
        "_made": 1,
        "_versions": [_version(1, document)],
        "_tags": _own_tags(request),
    }
    made = _show_policy(account, account.add("policy", name, record))
    return {"Policy": _without(made, "UpdateDate", "AttachmentCount")}


def _version(number: int, document: str) -> Record:
    return {
        "VersionId": f"v{number}",
        "IsDefaultVersion": True,
        "PolicyDocument": document,
        "CreateDate": timestamp(),
    }


def _default_version(record: Record) -> Record:
    return next(version for version in record["_versions"] if version["IsDefaultVersion"])


def _show_policy(account: Account, record: Record) -> Record:
    count = len(_attached(account, policy=record["PolicyName"], kind="Custom"))
    return {
        **public(record),
        "DefaultVersion": _default_version(record)["VersionId"],
        "AttachmentCount": count,
    }


def _get_policy(account: Account, request: Request) -> Record:
    record = _found_policy(account, request)
    return {"Policy": _show_policy(account, record), "DefaultPolicyVersion": _default_version(record)}


def _describe_policy(account: Account, request: Request) -> Record:
    record = _found_policy(account, request)
    record["Description"] = request.get("NewDescription")
    return {"Policy": _without(_show_policy(account, record), "AttachmentCount")}


def _create_policy_version(account: Account, request: Request) -> Record:
    record = _found_policy(account, request)
    document = request.required("PolicyDocument")
    ram_documents.check_policy(document)
    versions: list[Record] = record["_versions"]
    if len(versions) >= _MOST_VERSIONS:
        others = [version for version in versions if not version["IsDefaultVersion"]]
        if request.get("RotateStrategy") != _ROTATE:
            message = f"The policy {record['PolicyName']} has {_MOST_VERSIONS} versions already."
            raise ApiError(409, "LimitExceeded.Policy.Version", message)
        versions.remove(others[0])
    record["_made"] += 1
    version = _version(record["_made"], document)
    version["IsDefaultVersion"] = request.flag("SetAsDefault")
    if version["IsDefaultVersion"]:
        for other in versions:
            other["IsDefaultVersion"] = False
    versions.append(version)
    return {"PolicyVersion": version}


def _list_policy_versions(account: Account, request: Request) -> Record:
    return {"PolicyVersions": {"PolicyVersion": _found_policy(account, request)["_versions"]}}


def _delete_policy_version(account: Account, request: Request) -> Record:
    record = _found_policy(account, request)
    kept = [version for version in record["_versions"] if version["VersionId"] != request.required("VersionId")]
    if not any(version["IsDefaultVersion"] for version in kept):
        raise ApiError(409, "DeleteConflict.PolicyVersion.Default", "The default version cannot be deleted.")
    record["_versions"] = kept
    return {}


def _delete_policy(account: Account, request: Request) -> Record:
    record = _found_policy(account, request)
    name = record["PolicyName"]
    if _attached(account, policy=name, kind="Custom"):
        raise ApiError(409, "DeleteConflict.Policy.Role", f"The policy {name} is attached to roles.")
    if len(record["_versions"]) > 1 and not request.flag("CascadingDelete"):
        raise ApiError(409, "DeleteConflict.Policy.Version", f"The policy {name} has several versions.")
    account.remove("policy", name)
    return {}


def _attached(account: Account, *, role: str = "", policy: str = "", kind: str = "") -> list[Record]:
    requested = {"RoleName": role, "PolicyName": policy, "PolicyType": kind}
    filters = {name: value for name, value in requested.items() if value}
    return [record for record in account.all("policy_attachment").values() if filters.items() <= record.items()]


def _attach(account: Account, request: Request) -> Record:
    kind = request.one_of("PolicyType", ("Custom", "System"))
    role, policy = found_role(account, request.required("RoleName"))["RoleName"], request.required("PolicyName")
    if kind == "Custom":
        _found_policy(account, request)
    elif not _SYSTEM_POLICY.fullmatch(policy):
        raise ApiError(404, "EntityNotExist.Policy", f"The policy not exists: {policy}.")
    identifier = f"{role}/{kind}/{policy}"
    if account.find("policy_attachment", identifier) is not None:
        raise ApiError(409, "EntityAlreadyExists.Role.Policy", f"The policy {policy} is attached to role {role}.")
    record = {"RoleName": role, "PolicyName": policy, "PolicyType": kind, "AttachDate": timestamp()}
    account.add("policy_attachment", identifier, record)
    return {}


def _detach(account: Account, request: Request) -> Record:
    role = found_role(account, request.required("RoleName"))["RoleName"]
    identifier = f"{role}/{request.required('PolicyType')}/{request.required('PolicyName')}"
    if account.find("policy_attachment", identifier) is None:
        raise ApiError(404, "EntityNotExist.Role.Policy", f"The role {role} has no such policy.")
    account.remove("policy_attachment", identifier)
    return {}


def _list_policies_for_role(account: Account, request: Request) -> Record:
    role = found_role(account, request.required("RoleName"))["RoleName"]
    names = ("PolicyName", "PolicyType", "AttachDate")
    policies = [{name: record[name] for name in names} for record in _attached(account, role=role)]
    return {"Policies": {"Policy": policies}}


def _list_entities_for_policy(account: Account, request: Request) -> Record:
    kind, name = request.required("PolicyType"), request.required("PolicyName")
    roles = [{"RoleName": record["RoleName"]} for record in _attached(account, policy=name, kind=kind)]
    return {"Users": {"User": []}, "Groups": {"Group": []}, "Roles": {"Role": roles}}


def _tagged(account: Account, request: Request) -> list[Record]:
    kind = request.one_of("ResourceType", ("role", "policy"))
    names = json.loads(request.required("ResourceNames"))
    records = [account.find(kind, name) for name in names]
    if None in records:
        raise ApiError(404, f"EntityNotExist.{kind.capitalize()}", f"One of {names} does not exist.")
    return [record for record in records if record is not None]


def _tag(account: Account, request: Request) -> Record:
    for record in _tagged(account, request):
        record["_tags"] = tags.checked({**record["_tags"], **_own_tags(request)})
    return {}


def _untag(account: Account, request: Request) -> Record:
    gone = set(request.values("TagKey")) | set(json.loads(request.get("TagKeys", "[]")))
    for record in _tagged(account, request):
        record["_tags"] = {key: value for key, value in record["_tags"].items() if key not in gone}
    return {}


def _list_tags(account: Account, request: Request) -> Record:
    kind = request.get("ResourceType")
    return {
        "TagResources": [
            {"ResourceType": kind, "TagKey": key, "TagValue": value}
            for record in _tagged(account, request)
            for key, value in record["_tags"].items()
        ]
    }


OPERATIONS: dict[str, Operation] = {
    "CreateRole": _create_role,
    "GetRole": _get_role,
    "UpdateRole": _update_role,
    "DeleteRole": _delete_role,
    "CreatePolicy": _create_policy,
    "GetPolicy": _get_policy,
    "UpdatePolicyDescription": _describe_policy,
    "CreatePolicyVersion": _create_policy_version,
    "ListPolicyVersions": _list_policy_versions,
    "DeletePolicyVersion": _delete_policy_version,
    "DeletePolicy": _delete_policy,
    "AttachPolicyToRole": _attach,
    "DetachPolicyFromRole": _detach,
    "ListPoliciesForRole": _list_policies_for_role,
    "ListEntitiesForPolicy": _list_entities_for_policy,
    "TagResources": _tag,
    "UntagResources": _untag,
    "ListTagResources": _list_tags,
}
