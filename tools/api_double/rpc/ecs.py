"""ECS 2014-05-26: zones, instance types and deployment sets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from infra.instance_types import INSTANCE_TYPES
from tools.api_double.account import timestamp
from tools.api_double.protocol import ApiError
from tools.api_double.rpc import checks, tags
from tools.api_double.rpc.lists import page, part

if TYPE_CHECKING:
    from tools.api_double.account import Account, Record
    from tools.api_double.protocol import Operation, Request

_STRATEGIES = ("Availability", "AvailabilityGroup", "LowLatency")


def _describe_zones(_: Account, request: Request) -> Record:
    zones = [
        {"ZoneId": zone, "LocalName": zone, "ZoneType": "AvailabilityZone"} for zone in checks.zones(request.region)
    ]
    return {"Zones": {"Zone": zones}}


def _describe_instance_types(_: Account, request: Request) -> Record:
    wanted = set(request.values("InstanceTypes"))
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
        if not wanted or name in wanted
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
    wanted = set(json.loads(request.get("DeploymentSetIds", "[]")))
    records = account.read_all("deployment_set", lambda record: not wanted or record["DeploymentSetId"] in wanted)
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


OPERATIONS: dict[str, Operation] = {
    "DescribeZones": _describe_zones,
    "DescribeInstanceTypes": _describe_instance_types,
    "CreateDeploymentSet": _create_deployment_set,
    "DescribeDeploymentSets": _describe_deployment_sets,
    "ModifyDeploymentSetAttribute": _modify_deployment_set,
    "DeleteDeploymentSet": _delete_deployment_set,
    **tags.operations({"securitygroup": "security_group"}, untag="UntagResources"),
}
