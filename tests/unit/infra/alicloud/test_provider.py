"""The provider's inputs: never a key, a preview for everybody, and no update without credentials."""

from __future__ import annotations

import pytest

from infra.alicloud.provider import PLACEHOLDER, alicloud_provider, has_credentials, provider_inputs
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import record_on, settings

KEYS = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "secret"}
OIDC = {
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::1234567890123456:oidc-provider/ci",
    "ALIBABA_CLOUD_ROLE_ARN": "acs:ram::1234567890123456:role/ci",
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "/var/run/token",
}
ROLE = {"role_arn": "acs:ram::1234567890123456:role/deployer"}
NO_VARIABLES = {"HOME": "/nowhere"}


def _clear(monkeypatch, tmp_path):
    for name in ("ALICLOUD", "ALIBABA_CLOUD", "ALIBABACLOUD"):
        for variable in list(__import__("os").environ):
            if variable.startswith(name + "_"):
                monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))


@each_row(
    "variables",
    [
        KEYS,
        {"ALICLOUD_ACCESS_KEY": "id", "ALICLOUD_SECRET_KEY": "secret"},
        {"ALIBABACLOUD_ACCESS_KEY_ID": "id", "ALIBABACLOUD_ACCESS_KEY_SECRET": "secret"},
        {"ALIBABA_CLOUD_PROFILE": "work"},
        {"ALIBABA_CLOUD_ECS_METADATA": "runner"},
        {"ALIBABA_CLOUD_CREDENTIALS_URI": "http://127.0.0.1/credentials"},
        OIDC,
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_credentials_of_the_environment_stay_there(variables):
    for preview in (True, False):
        inputs = provider_inputs(settings(), variables, preview=preview)
        assert not {"access_key", "secret_key", "security_token"} & set(inputs)
        assert inputs["region"] == "cn-hangzhou"
        assert inputs["account_type"] == "Domestic"


@each_row(
    "variables",
    [
        {},
        {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id"},
        {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": ""},
        {key: value for key, value in OIDC.items() if "PROVIDER" not in key},
        {key: value for key, value in OIDC.items() if "TOKEN" not in key},
    ],
)
def test_half_of_the_credentials_is_none(variables):
    assert not has_credentials(variables)
    assert provider_inputs(settings(), variables, preview=True)["access_key"] == PLACEHOLDER


def test_a_preview_without_credentials_takes_no_role():
    inputs = provider_inputs(settings(assume_role=ROLE), NO_VARIABLES, preview=True)
    assert inputs["secret_key"] == PLACEHOLDER
    assert "assume_role" not in inputs


def test_the_role_is_taken_with_credentials():
    inputs = provider_inputs(settings(assume_role=ROLE), KEYS, preview=True)
    assert inputs["assume_role"] == {**ROLE, "session_name": "athanor"}


def test_a_token_is_traded_by_the_provider_itself():
    inputs = provider_inputs(settings(), OIDC, preview=False)
    assert inputs["assume_role_with_oidc"] == {
        "oidc_provider_arn": OIDC["ALIBABA_CLOUD_OIDC_PROVIDER_ARN"],
        "role_arn": OIDC["ALIBABA_CLOUD_ROLE_ARN"],
    }
    assert "assume_role_with_oidc" not in provider_inputs(settings(), OIDC | KEYS, preview=False)


def test_an_update_without_credentials_is_refused():
    with pytest.raises(RefusalError, match="Fix: set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET"):
        provider_inputs(settings(), NO_VARIABLES, preview=False)


def test_a_profile_that_nobody_named_is_pointed_at(tmp_path):
    (tmp_path / ".aliyun").mkdir()
    (tmp_path / ".aliyun" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RefusalError, match=r"set ALIBABA_CLOUD_PROFILE to a profile in ~/\.aliyun/config\.json"):
        provider_inputs(settings(), {"HOME": str(tmp_path)}, preview=False)


def test_the_engine_sees_placeholders_only_in_a_preview_without_credentials(monkeypatch, tmp_path):
    _clear(monkeypatch, tmp_path)
    [provider] = record_on(alicloud_provider, settings()).of_type("pulumi:providers:alicloud")
    assert provider.inputs["accessKey"] == provider.inputs["secretKey"] == PLACEHOLDER
    with pytest.raises(RefusalError, match="credentials"):
        record_on(alicloud_provider, settings(), preview=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    [provider] = record_on(alicloud_provider, settings(), preview=False).of_type("pulumi:providers:alicloud")
    assert provider.inputs == {"region": "cn-hangzhou", "accountType": "Domestic"}


def test_placeholders_are_not_change_of_a_stack_that_exists(monkeypatch, tmp_path):
    _clear(monkeypatch, tmp_path)
    [provider] = record_on(alicloud_provider, settings()).of_type("pulumi:providers:alicloud")
    assert set(provider.ignore_changes) == {"accessKey", "secretKey"}
