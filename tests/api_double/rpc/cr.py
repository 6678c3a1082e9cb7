"""Container Registry 2018-12-01: which VPCs reach an Enterprise Edition instance.

Instances are prepaid and ordered in the console, so each id that looks like one exists. "Configure a VPC ACL": a link
takes one address of a vswitch. No document names the error code of a second link of a vswitch; it is formed after that
of a link that does not exist, which the provider expects (resource_alicloud_cr_vpc_endpoint_linked_vpc.go).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tests.api_double.protocol import ApiError
from tests.api_double.rpc.vpc import found_vpc, found_vswitch

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

_INSTANCE = re.compile(r"cri-[a-z0-9]+")
_MODULES = ("Registry", "Chart")
_DONE: Record = {"Code": "success", "IsSuccess": True}


def _endpoint(request: Request) -> str:
    instance = request.required("InstanceId")
    if not _INSTANCE.fullmatch(instance):
        raise ApiError(404, "INSTANCE_NOT_EXIST", f"Instance {instance!r} does not exist.")
    request.required("ModuleName")
    return f"{instance}:{request.one_of('ModuleName', _MODULES)}"


def _identifier(request: Request) -> str:
    return f"{_endpoint(request)}:{request.required('VpcId')}:{request.required('VswitchId')}"


def _create_link(account: Account, request: Request) -> Record:
    identifier = _identifier(request)
    vpc, vswitch = found_vpc(account, request.get("VpcId")), found_vswitch(account, request.get("VswitchId"))
    if vswitch["VpcId"] != vpc["VpcId"]:
        message = f"vswitch {vswitch['VSwitchId']} does not belong to VPC {vpc['VpcId']}."
        raise ApiError(400, "INVALID_VSWITCH", message)
    if account.find("registry_link", identifier):
        raise ApiError(400, "INSTANCE_ACCESS_EXIST", f"The instance is already linked: {identifier}.")
    record: Record = {
        "VpcId": vpc["VpcId"],
        "VswitchId": vswitch["VSwitchId"],
        "Ip": str(IPv4Network(vswitch["CidrBlock"])[11]),
        "DefaultAccess": not request.flag("EnableCreateDNSRecordInPvzt"),
        "_endpoint": _endpoint(request),
    }
    account.add("registry_link", identifier, record, uses=[("vswitch", vswitch["VSwitchId"])])
    account.begin("registry_link", identifier, {"Status": "CREATING"}, {"Status": "RUNNING"})
    return _DONE


def _get_endpoint(account: Account, request: Request) -> Record:
    endpoint = _endpoint(request)
    links = account.read_all("registry_link", lambda record: record["_endpoint"] == endpoint)
    return {**_DONE, "Enable": True, "Domains": [], "LinkedVpcs": links, "ModuleName": request.get("ModuleName")}


def _delete_link(account: Account, request: Request) -> Record:
    identifier = _identifier(request)
    if account.find("registry_link", identifier) is None:
        raise ApiError(404, "INSTANCE_ACCESS_NOT_EXIST", f"The instance is not linked: {identifier}.")
    account.begin("registry_link", identifier, {"Status": "DELETING"}, None)
    return _DONE


OPERATIONS: dict[str, Operation] = {
    "CreateInstanceVpcEndpointLinkedVpc": _create_link,
    "GetInstanceVpcEndpoint": _get_endpoint,
    "DeleteInstanceVpcEndpointLinkedVpc": _delete_link,
}
