"""`athanor leftovers`: what an account still holds of a stack, and of no other, with an exit status to gate on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from athanor.account.command import CLEAN, LEFT, NOT_ASKED, UNCERTAIN
from athanor.account.credentials import open_cloud
from athanor.account.owned import Owner, leftovers
from athanor.command_line import main
from infra.settings.parse import parse_settings
from tests.api_double.double import ApiDouble
from tests.unit.tools.recovery.one_of_every_kind import OWNER, REGION, ZONE, one_of_every_kind

if TYPE_CHECKING:
    from pathlib import Path

STACK = "dev"
SETTINGS: dict[str, Any] = {
    "alicloud": {
        "region": REGION,
        "zones": [ZONE],
        "node_pools": [
            {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2}
        ],
    },
    "storage": {"oss": [{"name": "data", "bucket": "our-data"}]},
}
CSI = {"createdby": "alibabacloud-csi-plugin"}


@pytest.fixture
def double(tmp_path, monkeypatch):
    with ApiDouble(tmp_path / "double", settling_reads=0) as double:
        for name, value in double.environment().items():
            monkeypatch.setenv(name, value)
        yield double
    assert double.mistakes() == []
    assert double.unknown_operations() == []


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a project's files, which is the current one."""
    (tmp_path / "Pulumi.yaml").write_text("name: athanor\nruntime: python\n", encoding="utf-8")
    config = {f"athanor:{key}": value for key, value in SETTINGS.items()}
    (tmp_path / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def machine(double: ApiDouble, tags: dict[str, str]) -> str:
    identifier = double.account.new_id("instance")
    record = {"InstanceId": identifier, "InstanceName": "worker", "Status": "Running", "_tags": tags}
    double.account.add("instance", identifier, record)
    return identifier


def disk(double: ApiDouble, tags: dict[str, str], status: str = "Available") -> str:
    identifier = double.account.new_id("disk")
    double.account.add("disk", identifier, {"DiskId": identifier, "DiskName": "d", "Status": status, "_tags": tags})
    return identifier


def listed(double: ApiDouble, stack: str = STACK) -> dict[str, list[str]]:
    """Return the ids of what is left, by kind."""
    settings = parse_settings(SETTINGS)
    assert settings.alicloud
    cloud = open_cloud(settings.alicloud, double.environment())
    by_kind: dict[str, list[str]] = {}
    for one in leftovers(cloud, Owner(project="athanor", stack=stack), settings):
        by_kind.setdefault(one.kind, []).append(one.id)
    return by_kind


@pytest.mark.usefixtures("folder")
def test_an_empty_account_is_clean(double, capsys):
    assert double.inventory() == {}
    assert main(["leftovers", STACK]) == CLEAN
    assert capsys.readouterr().out.startswith(f"Nothing of athanor/dev exists in {REGION}.")


def test_everything_that_stands_alone_is_listed_and_its_parts_are_not(double):
    identifiers = {token.rpartition(":")[2]: identifier for token, (_, identifier) in one_of_every_kind(double).items()}

    left = listed(double)

    kinds = {
        "ACK cluster": "ManagedKubernetes",
        "NAT gateway": "NatGateway",
        "EIP": "EipAddress",
        "deployment set": "EcsDeploymentSet",
        "security group": "SecurityGroup",
        "VPC": "Network",
    }
    assert {kind: left[kind] for kind in kinds} == {kind: [identifiers[token]] for kind, token in kinds.items()}
    assert identifiers["FileSystem"] in left["file system"]
    assert left["NAS access group"] == [identifiers["AccessGroup"]]
    assert len(left["vswitch"]) == 2
    assert set(left) == {*kinds, "file system", "NAS access group", "vswitch"}


def test_roles_of_buckets_are_found_by_the_settings(double):
    role = {"RoleName": "athanor-dev-oss-data"}
    double.account.add("role", "athanor-dev-oss-data", {**role, "_tags": {}})
    assert listed(double) == {"RAM role": ["athanor-dev-oss-data"]}


def test_another_stack_s_things_are_left_out(double):
    one_of_every_kind(double)
    machine(double, {**OWNER, "athanor:stack": "prod"})
    assert listed(double, "prod").keys() == {"ECS instance"}


def test_tags_of_another_stack_decide_against_the_name(double):
    one_of_every_kind(double)
    with double.account.lock:
        for kind in ("vpc", "eip"):
            [record] = double.account.all(kind).values()
            record["_tags"] = {**OWNER, "athanor:stack": "dev-2"}
    assert listed(double).keys() & {"VPC", "EIP"} == set()


def test_machines_and_disks_are_found_by_their_tags(double):
    instance, data = machine(double, OWNER), disk(double, OWNER)
    machine(double, {})
    disk(double, {"athanor:stack": STACK})
    assert listed(double) == {"ECS instance": [instance], "disk": [data]}


def test_disks_of_claims_are_listed_when_their_cluster_is_gone(double):
    one_of_every_kind(double)
    [cluster] = double.inventory()["cluster"]
    gone, unknown = disk(double, {**CSI, "ack.aliyun.com": "c-gone"}, "In_use"), disk(double, CSI)
    disk(double, {**CSI, "ack.aliyun.com": cluster})
    disk(double, CSI, "In_use")
    assert listed(double)["disk of a claim"] == [gone, unknown]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("tags", "status", "said"),
    [
        (OWNER, LEFT, "Of athanor/dev, 1 resources exist in cn-hangzhou, 1 of them billed."),
        ({**CSI, "ack.aliyun.com": "c-gone"}, UNCERTAIN, "its cluster c-gone is gone"),
    ],
    ids=["ours", "perhaps another's"],
)
def test_the_exit_status_says_what_is_certain(double, capsys, tags, status, said):
    left = disk(double, tags)
    assert main(["leftovers", STACK]) == status
    printed = capsys.readouterr().out
    assert said in printed
    assert left in printed
    assert "Not looked up:" in printed
    assert main(["leftovers", STACK, "--json"]) == status
    [listed] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (listed["id"], listed["certain"], listed["billed"]) == (left, status == LEFT, True)


@pytest.mark.usefixtures("folder", "double")
def test_an_account_that_does_not_answer_is_not_clean(capsys, monkeypatch):
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "nobody")
    assert main(["leftovers", STACK]) == NOT_ASKED
    assert "InvalidAccessKeyId.NotFound" in capsys.readouterr().err
    assert main(["leftovers", STACK, "--json"]) == NOT_ASKED
    refused = json.loads(capsys.readouterr().err)
    assert (refused["command"], "InvalidAccessKeyId.NotFound" in refused["error"]) == ("leftovers", True)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("missing", ["Pulumi.yaml", f"Pulumi.{STACK}.yaml"])
def test_a_folder_without_the_project_is_refused(folder, capsys, missing):
    (folder / missing).unlink()
    assert main(["leftovers", STACK]) == NOT_ASKED
    assert f"has no {missing}" in capsys.readouterr().err


@pytest.mark.usefixtures("double")
def test_a_stack_without_an_account_is_refused(folder, capsys):
    (folder / f"Pulumi.{STACK}.yaml").write_text("config: {}\n", encoding="utf-8")
    assert main(["leftovers", STACK]) == NOT_ASKED
    assert "created nothing in an account" in capsys.readouterr().err
