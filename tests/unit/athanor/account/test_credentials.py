"""The account is asked with the identity that `pulumi up` has in the same shell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from athanor.account.credentials import open_cloud
from athanor.account.errors import CloudError
from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tests.api_double.account import ACCESS_KEY_ID, ACCESS_KEY_SECRET
from tests.api_double.double import ApiDouble
from tests.unit.api_double.api_client import client_of

if TYPE_CHECKING:
    from athanor.account.cloud import Cloud

ROLE = "acs:ram::1012345678901234:role/deployer"
PAIRS = [
    ("ALICLOUD_ACCESS_KEY", "ALICLOUD_SECRET_KEY"),
    ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
    ("ALIBABACLOUD_ACCESS_KEY_ID", "ALIBABACLOUD_ACCESS_KEY_SECRET"),
]


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with ApiDouble(tmp_path_factory.mktemp("double"), settling_reads=0) as double:
        trust = {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"RAM": [f"acs:ram::{double.account.id}:root"]},
        }
        document = json.dumps({"Version": "1", "Statement": [trust]})
        client_of(double).rpc("ram", "CreateRole", RoleName="deployer", AssumeRolePolicyDocument=document)
        yield double


@pytest.fixture
def without_keys(double) -> dict[str, str]:
    return {name: value for name, value in double.environment().items() if "ACCESS_KEY" not in name}


def opened(environment: dict[str, str], **alicloud: Any) -> Cloud:
    pool = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2}
    content = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [pool], **alicloud}
    settings = parse_settings({"alicloud": content}).alicloud
    assert settings
    return open_cloud(settings, environment)


def caller(cloud: Cloud) -> str:
    return cloud.rpc("sts", "GetCallerIdentity")["Arn"]


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: names[0])
def test_a_key_pair(without_keys, names):
    environment = {**without_keys, names[0]: ACCESS_KEY_ID, names[1]: ACCESS_KEY_SECRET}
    assert caller(opened(environment))


def test_a_profile_of_the_command_line_tool(without_keys, tmp_path):
    keys = {"access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET}
    profile = {"name": "work", "mode": "AK", "region_id": "cn-hangzhou", **keys}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"current": "other", "profiles": [profile]}), encoding="utf-8")
    environment = {"ALIBABA_CLOUD_PROFILE": "work", "ALIBABA_CLOUD_CREDENTIALS_FILE": str(file)}
    assert caller(opened({**without_keys, **environment}))


def test_a_role_on_top(double):
    cloud = opened(double.environment(), assume_role={"role_arn": ROLE})
    assert double.log.calls("AssumeRole")[-1].parameters["RoleArn"] == ROLE
    assert cloud._keys
    assert cloud._keys.access_key_id != ACCESS_KEY_ID
    assert caller(cloud)


def test_a_role_that_cannot_be_taken_is_said(double):
    with pytest.raises(CloudError, match="sts AssumeRole: "):
        opened(double.environment(), assume_role={"role_arn": ROLE.replace("deployer", "nobody")})


def test_the_token_of_a_job_is_traded_without_any_key(double, without_keys, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token\n", encoding="utf-8")
    environment = {
        "ALIBABA_CLOUD_OIDC_TOKEN_FILE": str(token),
        "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::1:oidc-provider/ci",
        "ALIBABA_CLOUD_ROLE_ARN": ROLE,
    }
    # the double has no such operation; it notes what it was asked for before it says so
    with pytest.raises(CloudError, match="sts AssumeRoleWithOIDC: "):
        opened({**without_keys, **environment})
    [call] = double.log.calls("AssumeRoleWithOIDC")
    assert call.parameters["RoleArn"] == ROLE


def test_no_source_is_a_refusal_with_its_fix(without_keys):
    with pytest.raises(RefusalError, match=r"credentials.*Fix: set the same credentials as for `pulumi up`"):
        opened(without_keys)
