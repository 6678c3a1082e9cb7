"""The RAM policies for whoever deploys allow what the provider calls and `make recover` asks, and nothing else.

What they call is what the API double serves: tests/engine and tests/cloud drive every resource of ours against it
with the real provider, and fail on an operation that it does not know.
"""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml

from tests.fixtures.recorded_stack import REPOSITORY
from tools.api_double import cs
from tools.api_double.rpc.ram_documents import LONGEST_POLICY, check_policy
from tools.api_double.services import RPC_SERVICES

ALWAYS = REPOSITORY / "docs" / "ram-policy.json"
FOR_BUCKETS = REPOSITORY / "docs" / "ram-policy-oss.json"
POLICIES = (ALWAYS, FOR_BUCKETS)

_DATA_SOURCE = "only data sources ask for it, and planning must ask the cloud nothing"
_NO_INPUT = "no input that we give leads to it"
_DEDICATED = "only dedicated clusters are read so"
NOT_NEEDED = {
    "cs:DescribeClusterNodes": _DEDICATED,
    "cs:DescribeKubernetesVersionMetadata": _DATA_SOURCE,
    "cs:ListAddons": _DATA_SOURCE,
    "cs:ListClusterAddonInstances": _DATA_SOURCE,
    "cs:MigrateCluster": "a change of the edition is refused (infra/alicloud/ack_cluster.py)",
    "ecs:DescribeInstanceTypes": _DATA_SOURCE,
    "ecs:DescribeZones": _DATA_SOURCE,
    "ecs:ModifySecurityGroupPolicy": _NO_INPUT,
    "nas:DisableNfsAcl": _NO_INPUT,
    "nas:EnableNfsAcl": _NO_INPUT,
    "sts:AssumeRole": "whoever takes the role needs it, not the role",
    "sts:GetCallerIdentity": "everybody may ask who they are",
    "vpc:ModifyRouteTableAttributes": _NO_INPUT,
}


def served() -> set[str]:
    operations = {f"{service.product}:{name}" for service in RPC_SERVICES.values() for name in service.operations}
    return operations | {f"cs:{route.operation}" for route in cs.ROUTES}


def statements(*files: Any) -> list[dict[str, Any]]:
    return [found for file in files for found in json.loads(file.read_text(encoding="utf-8"))["Statement"]]


def allowed(*files: Any) -> Counter[str]:
    return Counter(action for statement in statements(*files) for action in statement["Action"])


def test_they_allow_what_our_resources_need_and_nothing_else():
    assert set(NOT_NEEDED) <= served()
    assert set(allowed(*POLICIES)) == served() - set(NOT_NEEDED)


def test_no_action_is_repeated_or_a_wildcard():
    assert [action for action, times in allowed(*POLICIES).items() if times > 1 or "*" in action] == []


def test_roles_and_policies_are_for_buckets_alone():
    assert [action for action in allowed(ALWAYS) if action.startswith("ram:")] == []
    assert {action.partition(":")[0] for action in allowed(FOR_BUCKETS)} == {"ram"}


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: file.stem)
def test_ram_takes_them(file):
    text = file.read_text(encoding="utf-8")
    check_policy(text)
    assert len(text.encode()) <= LONGEST_POLICY
    assert {frozenset(found) for found in statements(file)} == {frozenset({"Effect", "Action", "Resource"})}
    assert {found["Effect"] for found in statements(file)} == {"Allow"}
    for found in statements(file):
        assert found["Action"] == sorted(found["Action"])


def test_what_changes_roles_and_policies_reaches_our_own_alone():
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    for statement in statements(FOR_BUCKETS):
        if statement["Resource"] == ["*"]:
            assert statement["Action"] == ["ram:ListTagResources"]
            continue
        for kind in ("role", "policy"):
            ours = f"acs:ram:*:1234567890123456:{kind}/{project}-prod-oss-data"
            foreign = f"acs:ram:*:1234567890123456:{kind}/admin"
            assert [pattern for pattern in statement["Resource"] if fnmatchcase(ours, pattern)]
            assert not [pattern for pattern in statement["Resource"] if fnmatchcase(foreign, pattern)]
