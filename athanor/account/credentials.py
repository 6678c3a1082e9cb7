"""The sources of credentials for Alibaba Cloud: the same ones as the provider's, in the same order.

Source: terraform-provider-alicloud, `providerConfigure`; infra/alicloud/provider.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from alibabacloud_credentials.provider import (
    CLIProfileCredentialsProvider,
    EcsRamRoleCredentialsProvider,
    URLCredentialsProvider,
)

from athanor.account.cloud import Cloud, Keys
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.alicloud import AlicloudSettings

_NAMES = ("ALICLOUD_{}", "ALIBABA_CLOUD_{}", "ALIBABACLOUD_{}")
_SESSION = "athanor-recover"


def open_cloud(settings: AlicloudSettings, environment: Mapping[str, str]) -> Cloud:
    """Return the environment's account and region, asked with the identity of `pulumi up`.

    Raises:
        RefusalError: there are no credentials.
        CloudError: the role could not be taken.
    """
    keys = keys_of(settings.region, environment)
    if settings.assume_role:
        caller = Cloud(settings.region, keys, environment)
        role, session = settings.assume_role.role_arn, settings.assume_role.session_name
        keys = _session(caller.rpc("sts", "AssumeRole", RoleArn=role, RoleSessionName=session))
    return Cloud(settings.region, keys, environment)


def keys_of(region: str, environment: Mapping[str, str]) -> Keys:
    """Return the key that these variables name or lead to.

    Raises:
        RefusalError: there is none.
        CloudError: a token could not be exchanged for one.
    """

    def value(*names: str) -> str:
        return next((environment[name] for name in names if environment.get(name)), "")

    def named(first: str, *others: str) -> str:
        return value(_NAMES[0].format(first), *(place.format(other) for other in others for place in _NAMES[1:]))

    key, secret = named("ACCESS_KEY", "ACCESS_KEY_ID"), named("SECRET_KEY", "ACCESS_KEY_SECRET")
    if key and secret:
        return Keys(access_key_id=key, access_key_secret=secret, security_token=named(*["SECURITY_TOKEN"] * 2))
    if profile := named(*["PROFILE"] * 2):
        file = value("ALICLOUD_SHARED_CREDENTIALS_FILE", "ALIBABA_CLOUD_CREDENTIALS_FILE")
        return _from(CLIProfileCredentialsProvider(profile_name=profile, profile_file=file))
    if role := value("ALICLOUD_ECS_ROLE_NAME", "ALIBABA_CLOUD_ECS_METADATA"):
        return _from(EcsRamRoleCredentialsProvider(role_name=role))
    if uri := named(*["CREDENTIALS_URI"] * 2):
        return _from(URLCredentialsProvider(uri=uri))
    if token := _oidc_token(environment):
        answer = Cloud(region, None, environment).rpc(
            "sts",
            "AssumeRoleWithOIDC",
            RoleArn=value("ALIBABA_CLOUD_ROLE_ARN"),
            OIDCProviderArn=value("ALIBABA_CLOUD_OIDC_PROVIDER_ARN"),
            OIDCToken=token,
            RoleSessionName=_SESSION,
        )
        return _session(answer)
    raise RefusalError(
        "credentials",
        None,
        "no Alibaba Cloud credentials are set in the environment, and created resources can be found only in the"
        " account",
        "set the same credentials as for `pulumi up` (docs/alicloud.md)",
    )


def _oidc_token(environment: Mapping[str, str]) -> str:
    file = environment.get("ALIBABA_CLOUD_OIDC_TOKEN_FILE")
    return Path(file).read_text(encoding="utf-8").strip() if file else environment.get("ALIBABA_CLOUD_OIDC_TOKEN", "")


def _from(provider: Any) -> Keys:  # noqa: ANN401 - the vendor's classes are not typed
    credentials = provider.get_credentials()
    return Keys(
        access_key_id=credentials.get_access_key_id(),
        access_key_secret=credentials.get_access_key_secret(),
        security_token=credentials.get_security_token() or "",
    )


def _session(answer: dict[str, Any]) -> Keys:
    session = cast("dict[str, str]", answer["Credentials"])
    return Keys(
        access_key_id=session["AccessKeyId"],
        access_key_secret=session["AccessKeySecret"],
        security_token=session["SecurityToken"],
    )
