"""ECS 2014-05-26: zones, instance types, deployment sets, and machines and disks outside of pools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infra.instance_types import INSTANCE_TYPES
from tests.api_double.account import public, timestamp
from tests.api_double.protocol import ApiError
from tests.api_double.rpc import checks, tags
from tests.api_double.rpc.lists import page, part

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_STRATEGIES = ("Availability", "AvailabilityGroup", "LowLatency")


def _describe_zones(_: Account, request: Request) -> Record:
    zones = [
        {"ZoneId": zone, "LocalName": zone, "ZoneType": "AvailabilityZone"} for zone in checks.zones(request.region)
    ]
    return {"Zones": {"Zone": zones}}


def _describe_instance_types(_: Account, request: Request) -> Record:
    requested = set(request.values("InstanceTypes"))
    types = [
        {
            "InstanceTypeId": name,
            "CpuCoreCount": kind.vcpus,
            "MemorySize": kind.memory_gib,
            "GPUAmount": kind.gpus,
            "EniQuantity": kind.enis,
            "EniPrivateIpAddressQuantity": kind.ipv4_per_eni,
        }
        for name, kind in INSTANCE_TYPES.items()
        if not requested or name in requested
    ]
    items, beside = part(request, types)
    return {"InstanceTypes": {"InstanceType": items}, **beside}


def _create_deployment_set(account: Account, request: Request) -> Record:
    identifier = account.new_id("deployment_set")
    record: Record = {
        "DeploymentSetId": identifier,
        "DeploymentSetName": checks.name(request.get("DeploymentSetName"), "DeploymentSetName"),
        "DeploymentSetDescription": checks.description(request.get("Description")),
        "DeploymentStrategy": request.one_of("Strategy", _STRATEGIES, "Availability"),
        "Domain": "default",
        "Granularity": "host",
        "GroupCount": 1,
        "CreationTime": timestamp(),
    }
    account.add("deployment_set", identifier, record)
    return {"DeploymentSetId": identifier}


def _describe_deployment_sets(account: Account, request: Request) -> Record:
    requested = set(json.loads(request.get("DeploymentSetIds", "[]")))
    records = account.read_all("deployment_set", lambda record: not requested or record["DeploymentSetId"] in requested)
    for record in records:
        members = [user for _, user in account.users("deployment_set", record["DeploymentSetId"])]
        record |= {"InstanceAmount": len(members), "InstanceIds": {"InstanceId": members}}
    items, beside = page(request, records)
    return {"RegionId": request.region, "DeploymentSets": {"DeploymentSet": items}, **beside}


def _found_deployment_set(account: Account, request: Request) -> Record:
    record = account.find("deployment_set", request.required("DeploymentSetId"))
    if record is None:
        raise ApiError(404, "InvalidDeploymentSetId.NotFound", "The specified DeploymentSetId does not exist.")
    return record


def _modify_deployment_set(account: Account, request: Request) -> Record:
    record = _found_deployment_set(account, request)
    if "DeploymentSetName" in request.parameters:
        record["DeploymentSetName"] = checks.name(request.get("DeploymentSetName"), "DeploymentSetName")
    if "Description" in request.parameters:
        record["DeploymentSetDescription"] = checks.description(request.get("Description"))
    return {}


def _delete_deployment_set(account: Account, request: Request) -> Record:
    identifier = request.required("DeploymentSetId")
    if account.find("deployment_set", identifier) is None:
        # as the API does: what is gone is gone
        return {}
    users = account.users("deployment_set", identifier)
    if users:
        message = f"The deployment set is not empty: {users[0][0]} {users[0][1]}."
        raise ApiError(400, "InvalidDeploymentSet.NotEmpty", message)
    account.remove("deployment_set", identifier)
    return {}


def _describe_instances(account: Account, request: Request) -> Record:
    """Return the machines that no pool holds; those of pools exist as nodes alone."""
    requested = set(json.loads(request.get("InstanceIds", "[]")))
    items, beside = page(request, _tagged(account, request, "instance", "InstanceId", requested), largest=100)
    return {"Instances": {"Instance": items}, **beside}


def _describe_disks(account: Account, request: Request) -> Record:
    items, beside = page(request, _tagged(account, request, "disk", "DiskId", set()), largest=100)
    return {"Disks": {"Disk": items}, **beside}


def _tagged(account: Account, request: Request, kind: str, name: str, requested: set[str]) -> list[Record]:
    """Return the objects of a kind with the tags that a call asks for."""
    asked = {item.get("Key"): item.get("Value") for item in request.repeated("Tag")}
    return [
        tags.with_tags(public(record), record["_tags"], key="TagKey", value="TagValue")
        for record in account.all(kind).values()
        if (not requested or record[name] in requested) and asked.items() <= record["_tags"].items()
    ]


OPERATIONS: dict[str, Operation] = {
    "DescribeInstances": _describe_instances,
    "DescribeDisks": _describe_disks,
    "DescribeZones": _describe_zones,
    "DescribeInstanceTypes": _describe_instance_types,
    "CreateDeploymentSet": _create_deployment_set,
    "DescribeDeploymentSets": _describe_deployment_sets,
    "ModifyDeploymentSetAttribute": _modify_deployment_set,
    "DeleteDeploymentSet": _delete_deployment_set,
    **tags.operations({"securitygroup": "security_group"}, untag="UntagResources"),
}
