"""The double against an oracle: Alibaba Cloud's own typed SDKs know each operation, name and type."""

from __future__ import annotations

import re

import pytest

from tests.api_double.cs import ROUTES
from tests.api_double.services import CS_VERSION, RPC_SERVICES
from tests.unit.api_double.every_operation import Called, every_operation
from tests.unit.api_double.vendor_models import Sdk

SDKS = {
    "2015-12-15": Sdk("alibabacloud_cs20151215"),
    "2014-05-26": Sdk("alibabacloud_ecs20140526"),
    "2017-06-26": Sdk("alibabacloud_nas20170626"),
    "2015-05-01": Sdk("alibabacloud_ram20150501"),
    "2015-04-01": Sdk("alibabacloud_sts20150401"),
    "2016-04-28": Sdk("alibabacloud_vpc20160428"),
}
"""By API version."""
OPERATIONS = {
    *((version, operation) for version, service in RPC_SERVICES.items() for operation in service.operations),
    *((CS_VERSION, route.operation) for route in ROUTES),
}
UNKNOWN_TO_THE_VENDOR = {
    # terraform-provider-alicloud 1.285, `migrateAlicloudManagedKubernetesCluster`, sends the edition so
    ("MigrateCluster", "spec"): "the provider changes a cluster's edition with it",
    # …, `RamServiceV2.SetResourceTags`: TagKey.n
    ("UntagResources", "TagKey"): "the provider names RAM's tags so; the SDK says TagKeys",
}
"""Parameters that the SDKs do not have, and why the double looks at them nevertheless."""


@pytest.fixture(scope="module")
def calls() -> list[Called]:
    return every_operation()


def test_every_operation_is_one_of_the_vendors() -> None:
    for version, operation in OPERATIONS:
        known = SDKS[version].operations[operation]
        assert known.version == version
    for route in ROUTES:
        known = SDKS[CS_VERSION].operations[route.operation]
        pattern = re.sub(r"\{\w+\}", "{}", route.pattern)
        assert (known.method, known.path.rstrip("/")) == (route.method, pattern), route.operation


def test_every_operation_is_compared(calls: list[Called]) -> None:
    assert {(called.version, called.operation) for called in calls} == OPERATIONS


def test_no_answer_has_a_name_or_a_type_that_the_vendors_models_do_not_have(calls: list[Called]) -> None:
    differences = {
        f"{called.operation} {difference}"
        for called in calls
        for sdk in [SDKS[called.version]]
        for difference in sdk.differences(called.answer, sdk.answer(called.operation))
    }
    assert sorted(differences) == []


def test_no_parameter_is_looked_at_that_the_vendors_models_do_not_have(calls: list[Called]) -> None:
    unknown = {
        (called.operation, name)
        for called in calls
        for name in called.looked_at - SDKS[called.version].parameters(called.operation).keys()
    }
    assert unknown == set(UNKNOWN_TO_THE_VENDOR)


def test_a_wrong_name_and_a_wrong_type_would_be_seen() -> None:
    vpc = SDKS["2016-04-28"]
    answer = {"Vpcs": {"Vpc": [{"VpcId": "vpc-1", "IsDefault": "no", "Name": "x"}]}, "TotalCount": True}
    assert list(vpc.differences(answer, vpc.answer("DescribeVpcs"))) == [
        "Vpcs.Vpc.IsDefault: str, not bool",
        "Vpcs.Vpc.Name",
        "TotalCount: bool, not int",
    ]
    assert list(vpc.differences({"Vpcs": []}, vpc.answer("DescribeVpcs"))) == [
        "Vpcs: list, not DescribeVpcsResponseBodyVpcs"
    ]
