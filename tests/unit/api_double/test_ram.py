"""Roles, policies, attachments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tables import each_row
from tests.unit.api_double.api_client import Client, RefusedError

TRUST = {
    "Version": "1",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Federated": ["acs:ram::1012345678901234:oidc-provider/ack-rrsa-c1"]},
            "Condition": {"StringEquals": {"oidc:aud": "sts.aliyuncs.com"}},
        }
    ],
}
POLICY = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": ["oss:Get*"], "Resource": ["*"]}]}


def make_role(client: Client, name: str = "reader", **parameters: object) -> dict[str, Any]:
    document = json.dumps(TRUST)
    return client.rpc("ram", "CreateRole", RoleName=name, AssumeRolePolicyDocument=document, **parameters)["Role"]


def make_policy(client: Client, name: str = "read", **parameters: object) -> dict[str, Any]:
    return client.rpc("ram", "CreatePolicy", PolicyName=name, PolicyDocument=json.dumps(POLICY), **parameters)["Policy"]


def test_a_role_is_made_read_changed_and_deleted(client: Client) -> None:
    tags = json.dumps([{"Key": "athanor:stack", "Value": "dev"}])
    made = make_role(client, Description="reads", MaxSessionDuration=7200, Tag=tags)
    read = client.rpc("ram", "GetRole", RoleName="reader")["Role"]
    assert read == {**made, "UpdateDate": made["CreateDate"]}
    assert (read["Arn"], read["MaxSessionDuration"]) == ("acs:ram::1012345678901234:role/reader", 7200)
    # the document comes back as it was given: a reader compares text
    assert read["AssumeRolePolicyDocument"] == json.dumps(TRUST)
    names = {"ResourceType": "role", "ResourceNames": '["reader"]'}
    assert client.rpc("ram", "ListTagResources", **names)["TagResources"] == [
        {"ResourceType": "role", "TagKey": "athanor:stack", "TagValue": "dev"}
    ]
    client.rpc("ram", "TagResources", **names, Tag=json.dumps([{"Key": "k", "Value": "v"}]))
    client.rpc("ram", "UntagResources", **names, TagKeys='["athanor:stack"]')
    assert [tag["TagKey"] for tag in client.rpc("ram", "ListTagResources", **names)["TagResources"]] == ["k"]
    client.rpc("ram", "UpdateRole", RoleName="reader", NewDescription="reads all", NewMaxSessionDuration=3600)
    assert client.rpc("ram", "GetRole", RoleName="reader")["Role"]["Description"] == "reads all"
    with pytest.raises(RefusedError, match=r"409 EntityAlreadyExists\.Role"):
        make_role(client)
    client.rpc("ram", "DeleteRole", RoleName="reader")
    with pytest.raises(RefusedError, match=r"404 EntityNotExist\.Role"):
        client.rpc("ram", "GetRole", RoleName="reader")


@each_row(
    ("change", "code"),
    [
        ({"RoleName": "a role"}, "InvalidParameter.RoleName.InvalidChars"),
        ({"MaxSessionDuration": 100}, "InvalidParameter.MaxSessionDuration"),
        ({"AssumeRolePolicyDocument": "{"}, "MalformedPolicyDocument"),
        ({"AssumeRolePolicyDocument": "[]"}, "MalformedPolicyDocument"),
        ({"AssumeRolePolicyDocument": json.dumps(POLICY)}, "MalformedPolicyDocument"),
        ({"AssumeRolePolicyDocument": json.dumps({**TRUST, "Version": "2"})}, "MalformedPolicyDocument"),
        (
            {
                "AssumeRolePolicyDocument": json.dumps(TRUST).replace(
                    "acs:ram::1012345678901234:oidc-provider/ack-rrsa-c1", "somebody"
                )
            },
            "MalformedPolicyDocument",
        ),
        (
            {"AssumeRolePolicyDocument": json.dumps(TRUST) + " " * 4096},
            "InvalidParameter.AssumeRolePolicyDocument.Length",
        ),
    ],
)
def test_a_role_that_cannot_be_is_refused(client: Client, change: dict[str, object], code: str) -> None:
    given = {"RoleName": "reader", "AssumeRolePolicyDocument": json.dumps(TRUST)}
    with pytest.raises(RefusedError) as refused:
        client.rpc("ram", "CreateRole", **{**given, **change})
    assert refused.value.code == code


@each_row(
    ("document", "code"),
    [
        ("nonsense", "MalformedPolicyDocument"),
        (json.dumps({"Version": "1", "Statement": [{"Effect": "Allow", "Action": "*"}]}), "MalformedPolicyDocument"),
        (json.dumps({"Version": "1", "Statement": [{"Effect": "Maybe"}]}), "MalformedPolicyDocument"),
        (json.dumps(TRUST), "MalformedPolicyDocument"),
        (json.dumps(POLICY) + " " * 6144, "InvalidParameter.PolicyDocument.Length"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(client: Client, document: str, code: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.rpc("ram", "CreatePolicy", PolicyName="read", PolicyDocument=document)
    assert refused.value.code == code


def test_a_policy_has_versions_up_to_a_limit(client: Client) -> None:
    make_policy(client, Description="first")
    for number in range(2, 6):
        document = json.dumps({**POLICY, "Id": str(number)})
        client.rpc("ram", "CreatePolicyVersion", PolicyName="read", PolicyDocument=document, SetAsDefault=True)
    more = {"PolicyName": "read", "PolicyDocument": json.dumps(POLICY), "SetAsDefault": True}
    with pytest.raises(RefusedError, match=r"LimitExceeded\.Policy\.Version"):
        client.rpc("ram", "CreatePolicyVersion", **more)
    rotate = "DeleteOldestNonDefaultVersionWhenLimitExceeded"
    client.rpc("ram", "CreatePolicyVersion", **more, RotateStrategy=rotate)
    read = client.rpc("ram", "GetPolicy", PolicyName="read", PolicyType="Custom")
    assert (read["Policy"]["DefaultVersion"], read["DefaultPolicyVersion"]["VersionId"]) == ("v6", "v6")
    assert read["DefaultPolicyVersion"]["PolicyDocument"] == json.dumps(POLICY)
    versions = client.rpc("ram", "ListPolicyVersions", PolicyName="read")["PolicyVersions"]["PolicyVersion"]
    assert [version["VersionId"] for version in versions] == ["v2", "v3", "v4", "v5", "v6"]
    with pytest.raises(RefusedError, match=r"DeleteConflict\.PolicyVersion\.Default"):
        client.rpc("ram", "DeletePolicyVersion", PolicyName="read", VersionId="v6")
    client.rpc("ram", "DeletePolicyVersion", PolicyName="read", VersionId="v2")
    with pytest.raises(RefusedError, match=r"DeleteConflict\.Policy\.Version"):
        client.rpc("ram", "DeletePolicy", PolicyName="read")
    client.rpc("ram", "UpdatePolicyDescription", PolicyName="read", NewDescription="later")
    assert client.rpc("ram", "GetPolicy", PolicyName="read")["Policy"]["Description"] == "later"
    client.rpc("ram", "DeletePolicy", PolicyName="read", CascadingDelete=True)


def test_what_is_attached_is_not_deleted(client: Client) -> None:
    make_role(client)
    make_policy(client)
    custom = {"RoleName": "reader", "PolicyName": "read", "PolicyType": "Custom"}
    system = {"RoleName": "reader", "PolicyName": "AliyunOSSReadOnlyAccess", "PolicyType": "System"}
    for attachment in (custom, system):
        client.rpc("ram", "AttachPolicyToRole", **attachment)
        with pytest.raises(RefusedError, match=r"409 EntityAlreadyExists\.Role\.Policy"):
            client.rpc("ram", "AttachPolicyToRole", **attachment)
    policies = client.rpc("ram", "ListPoliciesForRole", RoleName="reader")["Policies"]["Policy"]
    assert [policy["PolicyType"] for policy in policies] == ["Custom", "System"]
    entities = client.rpc("ram", "ListEntitiesForPolicy", PolicyName="read", PolicyType="Custom")
    assert entities["Roles"] == {"Role": [{"RoleName": "reader"}]}
    assert client.rpc("ram", "GetPolicy", PolicyName="read")["Policy"]["AttachmentCount"] == 1
    with pytest.raises(RefusedError, match=r"409 DeleteConflict\.Role\.Policy"):
        client.rpc("ram", "DeleteRole", RoleName="reader")
    with pytest.raises(RefusedError, match=r"409 DeleteConflict\.Policy\.Role"):
        client.rpc("ram", "DeletePolicy", PolicyName="read", CascadingDelete=True)
    for attachment in (custom, system):
        client.rpc("ram", "DetachPolicyFromRole", **attachment)
    with pytest.raises(RefusedError, match=r"404 EntityNotExist\.Role\.Policy"):
        client.rpc("ram", "DetachPolicyFromRole", **custom)
    client.rpc("ram", "DeletePolicy", PolicyName="read", CascadingDelete=True)
    client.rpc("ram", "DeleteRole", RoleName="reader")
    with pytest.raises(RefusedError, match=r"404 EntityNotExist\.Role"):
        client.rpc("ram", "AttachPolicyToRole", **system)


def test_only_a_policy_that_exists_is_attached(client: Client) -> None:
    make_role(client)
    for kind, name in (("Custom", "missing"), ("System", "Nonsense")):
        with pytest.raises(RefusedError, match=r"404 EntityNotExist\.Policy"):
            client.rpc("ram", "AttachPolicyToRole", RoleName="reader", PolicyName=name, PolicyType=kind)
