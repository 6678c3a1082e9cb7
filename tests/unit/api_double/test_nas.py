"""File systems, access groups, mount targets, and CPFS over NFS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.tables import each_row
from tests.unit.api_double.api_client import Client, RefusedError
from tests.unit.api_double.conftest import ZONE

if TYPE_CHECKING:
    from tests.api_double.double import ApiDouble
    from tests.unit.api_double.conftest import Network

KINDS = {
    "standard": {"FileSystemType": "standard", "StorageType": "Performance", "ProtocolType": "NFS"},
    "extreme": {"FileSystemType": "extreme", "StorageType": "standard", "ProtocolType": "NFS", "Capacity": 100},
    "cpfs": {"FileSystemType": "cpfs", "StorageType": "advance_100", "ProtocolType": "cpfs", "Capacity": 3600},
}


def create(network: Network, kind: str, **parameters: object) -> str:
    place = {"VpcId": network.vpc, "VSwitchId": network.vswitch} if kind == "cpfs" else {}
    given = {**KINDS[kind], **place, "ZoneId": ZONE, **parameters}
    return network.client.rpc("nas", "CreateFileSystem", **given)["FileSystemId"]


def running(network: Network, kind: str) -> str:
    identifier = create(network, kind)
    seen = [describe(network.client, identifier)["Status"] for _ in range(2)]
    assert seen == ["Pending", "Running"]
    return identifier


def describe(client: Client, identifier: str) -> dict[str, Any]:
    (file_system,) = client.rpc("nas", "DescribeFileSystems", FileSystemId=identifier)["FileSystems"]["FileSystem"]
    return file_system


def mount(network: Network, file_system: str, **parameters: object) -> str:
    place = {"VpcId": network.vpc, "VSwitchId": network.vswitch, "NetworkType": "Vpc"}
    answer = network.client.rpc("nas", "CreateMountTarget", FileSystemId=file_system, **{**place, **parameters})
    return answer["MountTargetDomain"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_system_of_each_kind_lives_and_ends(double: ApiDouble, network: Network, kind: str) -> None:
    client = network.client
    identifier = running(network, kind)
    assert identifier.startswith({"standard": "0", "extreme": "extreme-0", "cpfs": "cpfs-0"}[kind])
    described = describe(client, identifier)
    assert (described["VpcId"], described["QuorumVswId"]) == (
        (network.vpc, network.vswitch) if kind == "cpfs" else ("", "")
    )
    domain = mount(network, identifier)
    assert domain.startswith(f"{identifier}-")
    assert domain.endswith(
        {"standard": ".cn-hangzhou.nas", "extreme": ".cn-hangzhou.extreme.nas", "cpfs": ".cn-hangzhou.cpfs"}[kind]
        + ".aliyuncs.com"
    )
    with pytest.raises(RefusedError, match="VolumeStatusForbidOperation"):
        client.rpc("nas", "DeleteFileSystem", FileSystemId=identifier)
    with pytest.raises(RefusedError, match="DependencyViolation"):
        client.rpc("vpc", "DeleteVSwitch", VSwitchId=network.vswitch)
    client.rpc("nas", "DeleteMountTarget", FileSystemId=identifier, MountTargetDomain=domain)
    left = [
        client.rpc("nas", "DescribeMountTargets", FileSystemId=identifier)["MountTargets"]["MountTarget"]
        for _ in range(2)
    ]
    assert [len(targets) for targets in left] == [1, 0]
    with pytest.raises(RefusedError, match=r"404 InvalidMountTarget\.NotFound"):
        client.rpc("nas", "DescribeMountTargets", FileSystemId=identifier, MountTargetDomain=domain)
    client.rpc("nas", "DeleteFileSystem", FileSystemId=identifier)
    assert describe(client, identifier)["Status"] == "Stopping"
    with pytest.raises(RefusedError, match=r"404 InvalidFileSystem\.NotFound"):
        describe(client, identifier)
    assert not double.inventory().get("file_system")


@each_row(
    ("kind", "parameters", "code"),
    [
        ("standard", {"StorageType": "advance"}, "InvalidStorageType.NotSupported"),
        ("standard", {"ProtocolType": "cpfs"}, "InvalidProtocolType.NotSupported"),
        ("standard", {"EncryptType": 3}, "InvalidParameter.EncryptType"),
        ("extreme", {"Capacity": 99}, "InvalidCapacity.OutOfBounds"),
        ("extreme", {"ZoneId": ""}, "InvalidZoneId.NotFound"),
        ("cpfs", {"Capacity": 3599}, "InvalidCapacity.OutOfBounds"),
        ("cpfs", {"VSwitchId": ""}, "MissingParameter"),
        ("cpfs", {"ZoneId": "cn-hangzhou-j"}, "InvalidVSwitchId.NotFound"),
        ("cpfs", {"FileSystemType": "tape"}, "InvalidParameter.FileSystemType"),
    ],
)
def test_a_file_system_that_cannot_be_is_refused(
    network: Network, kind: str, parameters: dict[str, object], code: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        create(network, kind, **parameters)
    assert refused.value.code == code


def test_what_the_provider_reads_of_a_file_system(network: Network) -> None:
    client = network.client
    identifier = running(network, "standard")
    names = {"FileSystemId": identifier}
    assert client.rpc("nas", "GetRecycleBinAttribute", "GET", **names)["RecycleBinAttribute"]["Status"] == "Disable"
    client.rpc("nas", "EnableRecycleBin", **names, ReservedDays=7)
    client.rpc("nas", "UpdateRecycleBinAttribute", "GET", **names, ReservedDays=9)
    described = client.rpc("nas", "GetRecycleBinAttribute", "GET", **names)["RecycleBinAttribute"]
    assert (described["Status"], described["ReservedDays"]) == ("Enable", 9)
    client.rpc("nas", "DisableAndCleanRecycleBin", "GET", **names)
    assert client.rpc("nas", "GetRecycleBinAttribute", "GET", **names)["RecycleBinAttribute"]["Status"] == "Disable"
    assert client.rpc("nas", "DescribeNfsAcl", **names)["Acl"] == {"Enabled": False}
    client.rpc("nas", "EnableNfsAcl", **names)
    assert client.rpc("nas", "DescribeNfsAcl", **names)["Acl"] == {"Enabled": True}
    with pytest.raises(RefusedError, match=r"InvalidProtocolType\.NotSupported"):
        client.rpc("nas", "DescribeSmbAcl", **names)
    client.rpc("nas", "ModifyFileSystem", **names, Description="data of all")
    tag = {"ResourceType": "filesystem", "ResourceId": [identifier]}
    client.rpc("nas", "TagResources", **tag, Tag=[{"Key": "k", "Value": "v"}])
    assert client.rpc("nas", "ListTagResources", **tag)["TagResources"]["TagResource"][0]["TagKey"] == "k"
    described = describe(client, identifier)
    assert (described["Description"], described["Tags"]) == ("data of all", {"Tag": [{"Key": "k", "Value": "v"}]})


def test_a_file_system_grows_and_never_shrinks(network: Network) -> None:
    client = network.client
    identifier = running(network, "extreme")
    client.rpc("nas", "UpgradeFileSystem", FileSystemId=identifier, Capacity=200)
    assert [describe(client, identifier)["Status"] for _ in range(2)] == ["Extending", "Running"]
    assert describe(client, identifier)["Capacity"] == 200
    with pytest.raises(RefusedError, match=r"InvalidCapacity\.OutOfBounds"):
        client.rpc("nas", "UpgradeFileSystem", FileSystemId=identifier, Capacity=150)


def test_an_access_group_and_its_rules(double: ApiDouble, network: Network) -> None:
    client = network.client
    group = {"AccessGroupName": "nodes", "FileSystemType": "standard"}
    client.rpc("nas", "CreateAccessGroup", **group, AccessGroupType="Vpc", Description="nodes and pods")
    with pytest.raises(RefusedError, match=r"InvalidAccessGroup\.AlreadyExisted"):
        client.rpc("nas", "CreateAccessGroup", **group, AccessGroupType="Vpc")
    rule = client.rpc("nas", "CreateAccessRule", **group, SourceCidrIp="10.0.0.0/20", Priority=1)["AccessRuleId"]
    for parameters, code in (
        ({"SourceCidrIp": "10.0.0.0/20"}, "InvalidAccessRule.AlreadyExisted"),
        ({"SourceCidrIp": "everywhere"}, "InvalidSourceCidrIp.Malformed"),
        ({"SourceCidrIp": "10.1.0.0/20", "Priority": 0}, "InvalidPriority.OutOfBounds"),
        ({"SourceCidrIp": "10.1.0.0/20", "RWAccessType": "WO"}, "InvalidParameter.RWAccessType"),
    ):
        with pytest.raises(RefusedError) as refused:
            client.rpc("nas", "CreateAccessRule", **group, **parameters)
        assert refused.value.code == code
    client.rpc("nas", "ModifyAccessRule", **group, AccessRuleId=rule, RWAccessType="RDONLY", Priority=2)
    (now,) = client.rpc("nas", "DescribeAccessRules", **group, AccessRuleId=rule)["AccessRules"]["AccessRule"]
    assert (now["RWAccess"], now["UserAccess"], now["Priority"]) == ("RDONLY", "no_squash", 2)
    domain = mount(network, running(network, "standard"), AccessGroupName="nodes")
    with pytest.raises(RefusedError, match=r"InvalidAccessGroup\.AlreadyAttached"):
        client.rpc("nas", "DeleteAccessGroup", **group)
    (described,) = client.rpc("nas", "DescribeAccessGroups", **group)["AccessGroups"]["AccessGroup"]
    assert (described["RuleCount"], described["MountTargetCount"]) == (1, 1)
    client.rpc("nas", "ModifyAccessGroup", **group, Description="changed")
    file_system = double.inventory()["file_system"][0]
    names = {"FileSystemId": file_system, "MountTargetDomain": domain}
    client.rpc("nas", "ModifyMountTarget", **names, AccessGroupName="DEFAULT_VPC_GROUP_NAME")
    client.rpc("nas", "DeleteAccessRule", **group, AccessRuleId=rule)
    with pytest.raises(RefusedError, match=r"404 InvalidAccessRule\.NotFound"):
        client.rpc("nas", "DescribeAccessRules", **group, AccessRuleId=rule)
    client.rpc("nas", "DeleteAccessGroup", **group)
    with pytest.raises(RefusedError, match=r"404 InvalidAccessGroup\.NotFound"):
        client.rpc("nas", "DescribeAccessGroups", **group)


def test_a_mount_target_that_cannot_be_is_refused(network: Network) -> None:
    pending = create(network, "standard")
    with pytest.raises(RefusedError, match=r"OperationDenied\.InvalidState"):
        mount(network, pending)
    identifier = running(network, "standard")
    for parameters, code in (
        ({"AccessGroupName": "missing"}, "InvalidAccessGroup.NotFound"),
        ({"VSwitchId": ""}, "MissingVSwitchId"),
        ({"VSwitchId": "vsw-none"}, "InvalidVswitchID.NotFound"),
        ({"NetworkType": "Classic"}, "InvalidParameter.NetworkType"),
    ):
        with pytest.raises(RefusedError) as refused:
            mount(network, identifier, **parameters)
        assert refused.value.code == code


def test_a_cpfs_is_served_over_nfs(double: ApiDouble, network: Network) -> None:
    client = network.client
    file_system = running(network, "cpfs")
    spec = {"FileSystemId": file_system, "ProtocolType": "NFS", "ProtocolSpec": "General"}
    place = {"VpcId": network.vpc, "VSwitchId": network.vswitch}
    service = client.rpc("nas", "CreateProtocolService", **spec, **place)["ProtocolServiceId"]
    names = {"FileSystemId": file_system, "ProtocolServiceId": service}
    with pytest.raises(RefusedError, match=r"OperationDenied\.InvalidState"):
        client.rpc("nas", "CreateProtocolMountTarget", **names, **place)

    def services() -> list[str]:
        answer = client.rpc("nas", "DescribeProtocolService", FileSystemId=file_system, ProtocolServiceIds=service)
        return [one["Status"] for one in answer["ProtocolServices"]]

    assert [services() for _ in range(2)] == [["CREATING"], ["Running"]]
    with pytest.raises(RefusedError, match=r"OperationDenied\.ConflictOperation"):
        client.rpc("nas", "CreateProtocolService", **spec, **place)
    with pytest.raises(RefusedError, match=r"InvalidAccessGroup\.NotFound"):
        client.rpc("nas", "CreateProtocolMountTarget", **names, **place, AccessGroupName="nodes")
    export = client.rpc("nas", "CreateProtocolMountTarget", **names, **place, Path="/data")["ExportId"]
    seen = [
        client.rpc("nas", "GetProtocolMountTarget", **names, ExportId=export, ClientToken="t")["ProtocolMountTarget"]
        for _ in range(2)
    ]
    # a read with a token is a read all the same
    assert [one["Status"] for one in seen] == ["CREATING", "AVAILABLE"]
    assert seen[0]["Path"] == "/data"
    with pytest.raises(RefusedError, match=r"OperationDenied\.InvalidState"):
        client.rpc("nas", "DeleteProtocolService", **names)
    client.rpc("nas", "DeleteProtocolMountTarget", **names, ExportId=export)
    client.rpc("nas", "GetProtocolMountTarget", **names, ExportId=export)
    with pytest.raises(RefusedError, match=r"404 Resource\.NotFound"):
        client.rpc("nas", "GetProtocolMountTarget", **names, ExportId=export)
    client.rpc("nas", "ModifyProtocolService", **names, Description="NFS for all")
    client.rpc("nas", "DeleteProtocolService", **names)
    assert [services() for _ in range(2)] == [["DELETING"], []]
    client.rpc("nas", "DeleteFileSystem", FileSystemId=file_system)
    assert set(double.inventory()) >= {"vpc", "vswitch", "file_system"}
