"""What RAM takes for a policy and for a role's trust policy.

Source: RAM documentation, "Policy structure and syntax" and "Limits" (6,144 characters a custom policy).
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from tests.api_double.protocol import ApiError

LONGEST_POLICY = 6144
LONGEST_TRUST = 4096
_FEDERATED = re.compile(r"acs:ram::\d{16}:(saml|oidc)-provider/.+")
_RAM = re.compile(r"acs:ram::\d{16}:(root|user/.+|role/.+)")
_SERVICE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.aliyuncs\.com")
_PRINCIPALS = {"Federated": _FEDERATED, "RAM": _RAM, "Service": _SERVICE}


def check_policy(document: str) -> None:
    """Refuse a policy that RAM would refuse.

    Raises:
        ApiError: it is too long, no JSON, or lacks what a statement needs.
    """
    for statement in _statements(document, LONGEST_POLICY, "PolicyDocument"):
        if not ({"Action", "NotAction"} & statement.keys()) or "Resource" not in statement:
            raise _malformed("a statement needs Action (or NotAction) and Resource")
        if "Principal" in statement:
            raise _malformed("a policy that is attached names no Principal")


def check_trust(document: str) -> None:
    """Refuse a role's trust policy that RAM would refuse.

    Raises:
        ApiError: it is too long, no JSON, or trusts nobody that can be trusted.
    """
    for statement in _statements(document, LONGEST_TRUST, "AssumeRolePolicyDocument"):
        if statement.get("Action") != "sts:AssumeRole":
            raise _malformed("the Action of a trust policy is sts:AssumeRole")
        principals = statement.get("Principal")
        if not isinstance(principals, dict) or not principals:
            raise _malformed("a trust policy needs a Principal")
        for kind, values in cast("dict[str, Any]", principals).items():
            _check_principals(kind, values)


def _check_principals(kind: str, values: Any) -> None:  # noqa: ANN401 - what somebody wrote into a document
    pattern = _PRINCIPALS.get(kind)
    names = cast("list[Any]", values) if isinstance(values, list) else [values]
    if pattern is None or not names or not all(isinstance(name, str) and pattern.fullmatch(name) for name in names):
        raise _malformed(f"the Principal {kind} = {values!r} is not valid")


def _statements(document: str, longest: int, parameter: str) -> list[dict[str, Any]]:
    if len(document) > longest:
        message = f"{parameter} has {len(document)} characters; at most {longest} are allowed."
        raise ApiError(400, f"InvalidParameter.{parameter}.Length", message)
    try:
        content: Any = json.loads(document)
    except ValueError as error:
        raise _malformed(str(error)) from None
    if not isinstance(content, dict):
        raise _malformed("it is not an object")
    fields = cast("dict[str, Any]", content)
    statements: Any = fields.get("Statement")
    if fields.get("Version") != "1" or not isinstance(statements, list) or not statements:
        raise _malformed('it needs "Version": "1" and a list of Statement')
    entries = cast("list[dict[str, Any]]", statements)
    for statement in entries:
        if statement.get("Effect") not in {"Allow", "Deny"}:
            raise _malformed("the Effect of a statement is Allow or Deny")
    return entries


def _malformed(why: str) -> ApiError:
    return ApiError(400, "MalformedPolicyDocument", f"The policy document is malformed: {why}.")
