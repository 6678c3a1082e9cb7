"""STS 2015-04-01: who one is, and becoming a role for a while."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.api_double.protocol import ApiError
from tests.api_double.rpc import ram_documents
from tests.api_double.rpc.ram import found_role
from tests.api_double.signatures import Credential

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request


def _caller(account: Account, request: Request) -> Record:
    temporary = request.access_key_id.startswith("STS.")
    arn = f"acs:ram::{account.id}:" + ("assumed-role/athanor/session" if temporary else "root")
    kind = "AssumedRoleUser" if temporary else "Account"
    return {"AccountId": account.id, "Arn": arn, "IdentityType": kind, "UserId": account.id, "PrincipalId": account.id}


def _assume_role(account: Account, request: Request) -> Record:
    arn, session = request.required("RoleArn"), request.required("RoleSessionName")
    owner, _, name = arn.partition(":role/")
    roles = [role for role in account.all("role").values() if role["Arn"] == arn]
    if owner != f"acs:ram::{account.id}" or not roles:
        found_role(account, name)
        raise ApiError(404, "EntityNotExist.Role", f"The specified Role not exists: {arn}.")
    duration = request.number("DurationSeconds", 3600)
    if not 900 <= duration <= roles[0]["MaxSessionDuration"]:
        raise ApiError(400, "InvalidParameter.DurationSeconds", f"DurationSeconds {duration} is out of range.")
    if request.get("Policy"):
        ram_documents.check_policy(request.get("Policy"))
    digest = hashlib.sha256(f"{account.new_id('session')}/{session}".encode()).hexdigest()
    key = f"STS.{digest[:24]}"
    credential = Credential(digest[24:44], digest[44:])
    account.add_session(key, credential)
    return {
        "AssumedRoleUser": {
            "Arn": f"{arn.replace(':role/', ':assumed-role/')}/{session}",
            "AssumedRoleId": digest[:18],
        },
        "Credentials": {
            "AccessKeyId": key,
            "AccessKeySecret": credential.secret,
            "SecurityToken": credential.security_token,
            "Expiration": (datetime.now(UTC) + timedelta(seconds=duration)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }


OPERATIONS: dict[str, Operation] = {"GetCallerIdentity": _caller, "AssumeRole": _assume_role}
