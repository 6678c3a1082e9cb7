"""The RAM policies for deploying allow what the provider calls and `make recover` asks, and nothing else.

What they call is what the API double serves: tests/engine and tests/cloud drive every resource of ours against it
with the real provider, and fail on an operation that it does not know.
"""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

import yaml

from tests.api_double import cs
from tests.api_double.rpc.ram_documents import LONGEST_POLICY, check_policy
from tests.api_double.services import RPC_SERVICES
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row

ALWAYS = REPOSITORY / "docs" / "ram-policy.json"
FOR_BUCKETS = REPOSITORY / "docs" / "ram-policy-oss.json"
POLICIES = (ALWAYS, FOR_BUCKETS)
FOR_PREVIEWS = REPOSITORY / "docs" / "ram-policy-preview.json"
READS = ("Check", "Describe", "Get", "List", "Query")

_DATA_SOURCE = "only data sources ask for it, and planning must ask the cloud nothing"
_NO_INPUT = "no input that we give leads to it"
_DEDICATED = "only dedicated clusters are read so"
NOT_NEEDED = {
    "cs:DescribeClusterNodes": _DEDICATED,
    "cs:ListClusterAddonInstances": _DATA_SOURCE,
    "cs:MigrateCluster": "a change of the edition is refused (infra/alicloud/ack_cluster.py)",
    "ecs:DescribeInstanceTypes": _DATA_SOURCE,
    "ecs:DescribeZones": _DATA_SOURCE,
    "ecs:ModifySecurityGroupPolicy": _NO_INPUT,
    "nas:DisableNfsAcl": _NO_INPUT,
    "nas:EnableNfsAcl": _NO_INPUT,
    "sts:AssumeRole": "the user who assumes the role needs it, not the role",
    "sts:GetCallerIdentity": "everybody may ask who they are",
    "vpc:ModifyRouteTableAttributes": _NO_INPUT,
}
OTHER_NAMES = {
    "cs:CreateClusterNodePool": "cs:CreateNodepool",
    "cs:DeleteClusterNodepool": "cs:DeleteNodepool",
    "cs:DescribeClusterAddonsUpgradeStatus": "cs:QueryK8sComponentUpgradeStatus",
    "cs:DescribeClusterDetail": "cs:GetClusterById",
    "cs:DescribeClusterNodePoolDetail": "cs:GetNodepoolDetail",
    "cs:DescribeClusterNodePools": "cs:GetNodepools",
    "cs:DescribeClusterUserKubeconfig": "cs:GetUserConfig",
    "cs:DescribeClustersV1": "cs:ListClusters",
    "cs:GetClusterAddonInstance": "cs:DescribeClusterAddonInstance",
    "cs:InstallClusterAddons": "cs:InstallK8sComponents",
    "cs:ModifyClusterNodePool": "cs:UpdateNodepool",
    "cs:ModifyClusterTags": "cs:UpdateClusterTags",
    "cs:UnInstallClusterAddons": "cs:UnInstallK8sComponents",
    "cs:UpgradeClusterAddons": "cs:UpgradeK8sComponents",
}
"""Operations to which documents of ACK give actions of different names, and the other name: both are granted.

The operation's own name is in ACK's example policies; the other ones are in "Create a custom RAM policy", table
"Mappings between RAM actions and API operations", and for UpgradeClusterAddons on its own page, too. Of
GetClusterAddonInstance "Get…" is in the README of AliyunContainerService/karpenter-provider-alibabacloud, "Describe…"
in the example policies of ACK, "Best practices for authorization" (use case 2).
"""


def served() -> set[str]:
    operations = {f"{service.product}:{name}" for service in RPC_SERVICES.values() for name in service.operations}
    return operations | {f"cs:{route.operation}" for route in cs.ROUTES}


def statements(*files: Any) -> list[dict[str, Any]]:
    return [statement for file in files for statement in json.loads(file.read_text(encoding="utf-8"))["Statement"]]


def allowed(*files: Any) -> Counter[str]:
    return Counter(action for statement in statements(*files) for action in statement["Action"])


def test_they_allow_what_our_resources_need_and_nothing_else():
    assert set(NOT_NEEDED) <= served()
    assert set(OTHER_NAMES) <= served() - set(NOT_NEEDED)
    assert set(allowed(*POLICIES)) == (served() - set(NOT_NEEDED)) | set(OTHER_NAMES.values())


def test_no_action_is_repeated_or_a_wildcard():
    assert [action for action, times in allowed(*POLICIES).items() if times > 1 or "*" in action] == []


def test_roles_and_policies_are_for_buckets_alone():
    assert [action for action in allowed(ALWAYS) if action.startswith("ram:")] == []
    assert {action.partition(":")[0] for action in allowed(FOR_BUCKETS)} == {"ram"}


@each_row("file", [*POLICIES, FOR_PREVIEWS], ids=lambda file: file.stem)
def test_ram_takes_them(file):
    text = file.read_text(encoding="utf-8")
    check_policy(text)
    assert len(text.encode()) <= LONGEST_POLICY
    assert {frozenset(statement) for statement in statements(file)} == {frozenset({"Effect", "Action", "Resource"})}
    assert {statement["Effect"] for statement in statements(file)} == {"Allow"}
    for statement in statements(file):
        assert statement["Action"] == sorted(statement["Action"])


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


def test_a_preview_may_read_what_an_update_reads_and_nothing_else():
    reads = {action for action in allowed(*POLICIES) if action.partition(":")[2].startswith(READS)}
    assert set(allowed(FOR_PREVIEWS)) == reads
    assert max(allowed(FOR_PREVIEWS).values()) == 1
    own = {action: statement["Resource"] for statement in statements(*POLICIES) for action in statement["Action"]}
    for statement in statements(FOR_PREVIEWS):
        assert all(own[action] == statement["Resource"] for action in statement["Action"])
