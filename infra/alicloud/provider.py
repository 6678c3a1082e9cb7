"""The Alibaba Cloud provider of an environment: region, account type and role; never a key.

Where credentials come from: terraform-provider-alicloud, `providerConfigure`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pulumi
import pulumi_alicloud as alicloud

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.alicloud import AlicloudSettings

_T = TypeVar("_T")
_KEY_PAIRS = (
    ("ALICLOUD_ACCESS_KEY", "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABACLOUD_ACCESS_KEY_ID"),
    ("ALICLOUD_SECRET_KEY", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABACLOUD_ACCESS_KEY_SECRET"),
)
_PROFILES = ("ALICLOUD_PROFILE", "ALIBABA_CLOUD_PROFILE")
_OTHER_SOURCES = (
    *_PROFILES,
    "ALICLOUD_ECS_ROLE_NAME",
    "ALIBABA_CLOUD_ECS_METADATA",
    "ALICLOUD_CREDENTIALS_URI",
    "ALIBABA_CLOUD_CREDENTIALS_URI",
)
_OIDC = {"oidc_provider_arn": "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "role_arn": "ALIBABA_CLOUD_ROLE_ARN"}
_OIDC_TOKENS = ("ALIBABA_CLOUD_OIDC_TOKEN_FILE", "ALIBABA_CLOUD_OIDC_TOKEN")
PLACEHOLDER = "placeholder-for-a-preview-without-credentials"


def of_created(resource: pulumi.CustomResource, output: pulumi.Output[_T]) -> pulumi.Output[_T]:
    """Return an output of a resource, unknown where `--target` keeps it from being created: the engine says None."""
    return resource.id.apply(lambda _: output)


def alicloud_provider(settings: AlicloudSettings) -> alicloud.Provider:
    """Declare the provider of an environment.

    Without any credentials in sight it gets placeholders, so that a preview of a new stack works: planning asks the
    cloud nothing.

    Raises:
        RefusalError: there are no credentials, and this is not a preview.
    """
    inputs = provider_inputs(settings, os.environ, preview=pulumi.runtime.is_dry_run())
    # So placeholders never appear as a change of an existing stack, nor reach the cloud: the provider then keeps to
    # what the checkpoint says and names the missing credentials itself.
    opts = pulumi.ResourceOptions(ignore_changes=["accessKey", "secretKey"])
    return alicloud.Provider("alicloud", opts=opts, **inputs)


def provider_inputs(settings: AlicloudSettings, environment: Mapping[str, str], *, preview: bool) -> dict[str, Any]:
    """Return the provider's inputs.

    Raises:
        RefusalError: see `alicloud_provider`.
    """
    # Without an account type the provider asks a billing endpoint first, and waits 30 s where it cannot be reached.
    inputs: dict[str, Any] = {"region": settings.region, "account_type": settings.account_type}
    if has_credentials(environment):
        if settings.assume_role:
            inputs["assume_role"] = {
                "role_arn": settings.assume_role.role_arn,
                "session_name": settings.assume_role.session_name,
            }
        return inputs | _oidc(environment)
    if preview:
        # No role here: to take one, the provider would call the cloud.
        return {**inputs, "access_key": PLACEHOLDER, "secret_key": PLACEHOLDER}
    raise RefusalError(
        "credentials", None, "no Alibaba Cloud credentials are set in the environment", _fix(environment)
    )


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Return whether the provider would find credentials in these variables."""
    return _has_keys(environment) or _any_of(_OTHER_SOURCES, environment) or bool(_oidc(environment))


def _has_keys(environment: Mapping[str, str]) -> bool:
    return all(_any_of(names, environment) for names in _KEY_PAIRS)


def _oidc(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the block that makes the provider trade the OIDC token of a CI job or pod; it reads the token itself."""
    if _has_keys(environment) or _any_of(_OTHER_SOURCES, environment) or not _any_of(_OIDC_TOKENS, environment):
        return {}
    block = {name: environment.get(variable, "") for name, variable in _OIDC.items()}
    return {"assume_role_with_oidc": block} if all(block.values()) else {}


def _any_of(names: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in names)


def _fix(environment: Mapping[str, str]) -> str:
    keys = " and ".join(names[1] for names in _KEY_PAIRS)
    if (Path(environment.get("HOME", "/")) / ".aliyun" / "config.json").exists():
        return f"set {_PROFILES[1]} to a profile in ~/.aliyun/config.json, or set {keys}"
    return f"set {keys}, or {_PROFILES[1]} after `aliyun configure`"
