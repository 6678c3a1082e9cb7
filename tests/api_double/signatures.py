"""Check who signs a call, in the three ways the provider's clients and the official SDKs do.

Source: Alibaba Cloud OpenAPI, "Signature method" of RPC and ROA calls, and "V3 request body & signature mechanism".
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.api_double.wire import Call

V3_ALGORITHM = "ACS3-HMAC-SHA256"
_V3_AUTHORIZATION = re.compile(
    r"ACS3-HMAC-SHA256 Credential=(?P<key>[^,]+),\s*SignedHeaders=(?P<headers>[^,]+),\s*Signature=(?P<signature>\w+)"
)


class Credential(NamedTuple):
    """What belongs to an access key."""

    secret: str
    security_token: str = ""
    """Of a temporary key: must be sent along."""
    expired: bool = False
    """Of a temporary key: whether its time is over."""
    allowed: Sequence[str] | None = None
    """Actions of its RAM policies, such as `vpc:DescribeVpcs`; None allows everything."""


class _Signer(NamedTuple):
    """Who claims to have signed a call, and how to sign it in the same way."""

    access_key_id: str
    security_token: str
    signature: str
    right: Callable[[str], list[str]]
    """From the secret to the signatures that are right."""


def check(call: Call, credential: Callable[[str], Credential | None]) -> str:
    """Return the access key that signed the call.

    Raises:
        ApiError: unsigned, an unknown key, a wrong signature, or a security token that is wrong or has expired.
    """
    signer = _signer(call)
    known = credential(signer.access_key_id)
    if known is None:
        raise ApiError(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
    if signer.signature not in signer.right(known.secret):
        raise ApiError(
            400, "SignatureDoesNotMatch", "Specified signature is not matched with our calculation of this request."
        )
    if signer.security_token != known.security_token:
        code = "InvalidSecurityToken.MismatchWithAccessKey" if signer.security_token else "MissingSecurityToken"
        raise ApiError(403, code, "Specified SecurityToken does not fit the access key.")
    if known.expired:
        raise ApiError(400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
    return signer.access_key_id


def rpc_signature(method: str, parameters: Mapping[str, str], secret: str) -> str:
    """Return the signature of an RPC call with these query and form parameters (HMAC-SHA1)."""
    pairs = (f"{encode(name)}={encode(value)}" for name, value in sorted(parameters.items()) if name != "Signature")
    text = f"{method}&%2F&{encode('&'.join(pairs))}"
    return _hmac_sha1(f"{secret}&", text)


def roa_signature(method: str, resource: str, headers: Mapping[str, str], secret: str) -> str:
    """Return the signature of an ROA call (HMAC-SHA1); `resource` is its path and query."""
    common = (headers.get(name, "") for name in ("accept", "content-md5", "content-type", "date"))
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-acs-"))
    return _hmac_sha1(secret, "\n".join([method, *common, own + resource]))


def v3_signature(call: Call, signed_headers: list[str], secret: str) -> str:
    """Return the signature of a call in the third way (HMAC-SHA256 over a canonical request)."""
    query = "&".join(f"{encode(name)}={encode(value)}" for name, value in sorted(call.query.items()))
    headers = "".join(f"{name}:{call.headers.get(name, '').strip()}\n" for name in signed_headers)
    digest = hashlib.sha256(call.body).hexdigest()
    canonical = "\n".join([call.method, call.path, query, headers, ";".join(signed_headers), digest])
    text = f"{V3_ALGORITHM}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def encode(text: str) -> str:
    """Percent-encode as the API wants it: everything but letters, digits and -_.~ (RFC 3986)."""
    return quote(text, safe="-_.~")


def _signer(call: Call) -> _Signer:
    authorization = call.headers.get("authorization", "")
    token = call.headers.get("x-acs-security-token", "")
    v3 = _V3_AUTHORIZATION.fullmatch(authorization)
    if v3:
        names = v3["headers"].split(";")

        def v3_signatures(secret: str) -> list[str]:
            return [v3_signature(call, names, secret)]

        return _Signer(v3["key"], token, v3["signature"], v3_signatures)
    if authorization.startswith("acs "):
        key, _, signature = authorization.removeprefix("acs ").partition(":")
        return _Signer(key, token, signature, functools.partial(_roa_signatures, call))
    return _rpc_signer(call)


def _rpc_signer(call: Call) -> _Signer:
    parameters = {**call.query, **call.form}
    key = parameters.get("AccessKeyId", "")
    if not key:
        raise ApiError(400, "MissingAccessKeyId", "AccessKeyId is mandatory for this action.")

    def rpc_signatures(secret: str) -> list[str]:
        return [rpc_signature(call.method, parameters, secret)]

    return _Signer(key, parameters.get("SecurityToken", ""), parameters.get("Signature", ""), rpc_signatures)


def _roa_signatures(call: Call, secret: str) -> list[str]:
    """Return the signatures of an ROA call over its target as sent, and over the sorted and decoded query."""
    pairs = (f"{name}={value}" if value else name for name, value in sorted(call.query.items()))
    decoded = f"{unquote(call.path)}?{'&'.join(pairs)}" if urlsplit(call.target).query else unquote(call.path)
    return [roa_signature(call.method, resource, call.headers, secret) for resource in {call.target, decoded}]


def _hmac_sha1(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()).decode()
