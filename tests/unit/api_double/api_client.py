"""A small client of the API that signs as the SDKs do, for tests of the double."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import http.client
import json
import ssl
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.double import ApiDouble

VERSIONS = {"vpc": "2016-04-28", "ecs": "2014-05-26", "ram": "2015-05-01", "sts": "2015-04-01", "nas": "2017-06-26"}
CS_VERSION = "2015-12-15"
TIME = "2026-11-21T10:00:00Z"


class RefusedError(Exception):
    """The API answered with an error."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code: str = body.get("Code") or body.get("code") or ""
        self.message: str = body.get("Message") or body.get("message") or ""
        super().__init__(f"{status} {self.code}: {self.message}")


def encode(text: str) -> str:
    return quote(text, safe="-_.~")


@dataclass(frozen=True, kw_only=True)
class Client:
    """Speaks HTTPS to the double, trusting its authority alone."""

    address: str
    trusted: str
    key: str
    secret: str
    token: str = ""

    def rpc(self, product: str, operation: str, method: str = "POST", **parameters: object) -> dict[str, Any]:
        """Call an RPC operation: common parameters in the query, the operation's own in the form."""
        common = {
            "Action": operation,
            "Version": VERSIONS[product],
            "Format": "json",
            "Timestamp": TIME,
            "SignatureNonce": str(uuid.uuid4()),
            "SignatureMethod": "HMAC-SHA1",
            "SignatureVersion": "1.0",
            "AccessKeyId": self.key,
        }
        if self.token:
            common["SecurityToken"] = self.token
        own = flat(parameters)
        pairs = "&".join(f"{encode(name)}={encode(value)}" for name, value in sorted({**common, **own}.items()))
        common["Signature"] = sha1(f"{self.secret}&", f"{method}&%2F&{encode(pairs)}")
        if method == "GET":
            return self.send(method, f"/?{urlencode({**common, **own})}", {}, b"")
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send(method, f"/?{urlencode(common)}", headers, urlencode(own).encode())

    def roa(self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None) -> Any:
        """Call an ROA operation of the container service, signed "acs key:signature"."""
        payload = b"" if body is None else json.dumps(body).encode()
        headers = {
            "accept": "application/json",
            "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            "x-acs-version": CS_VERSION,
            "x-acs-signature-nonce": str(uuid.uuid4()),
        }
        if body is not None:
            headers["content-type"] = "application/json; charset=utf-8"
        if self.token:
            headers["x-acs-security-token"] = self.token
        own = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()) if name.startswith("x-acs-"))
        plain = "&".join(f"{name}={value}" if value else name for name, value in sorted((query or {}).items()))
        resource = f"{path}?{plain}" if plain else path
        text = "\n".join(
            [method, headers["accept"], "", headers.get("content-type", ""), headers["date"], own + resource]
        )
        headers["authorization"] = f"acs {self.key}:{sha1(self.secret, text)}"
        return self.send(method, f"{path}?{urlencode(query)}" if query else path, headers, payload)

    def v3(self, product: str, operation: str, **parameters: object) -> dict[str, Any]:
        """Call an RPC operation, signed ACS3-HMAC-SHA256 as the SDKs of today do."""
        own = flat(parameters)
        query = "&".join(f"{encode(name)}={encode(value)}" for name, value in sorted(own.items()))
        headers = {
            "host": self.address,
            "x-acs-action": operation,
            "x-acs-version": VERSIONS[product],
            "x-acs-date": TIME,
            "x-acs-signature-nonce": str(uuid.uuid4()),
            "x-acs-content-sha256": hashlib.sha256(b"").hexdigest(),
        }
        if self.token:
            headers["x-acs-security-token"] = self.token
        names = sorted(headers)
        lines = "".join(f"{name}:{headers[name]}\n" for name in names)
        canonical = "\n".join(["POST", "/", query, lines, ";".join(names), headers["x-acs-content-sha256"]])
        text = f"ACS3-HMAC-SHA256\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"ACS3-HMAC-SHA256 Credential={self.key},SignedHeaders={';'.join(names)},Signature={signature}"
        )
        return self.send("POST", f"/?{query}", headers, b"")

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Any:
        host, port = self.address.split(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=20, context=_context(self.trusted))
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            payload = response.read()
        finally:
            connection.close()
        content = json.loads(payload) if payload else None
        if response.status >= http.client.BAD_REQUEST:
            raise RefusedError(response.status, content)
        return content

    def with_key(self, key: str, secret: str, token: str = "") -> Client:
        return replace(self, key=key, secret=secret, token=token)


@functools.cache
def _context(trusted: str) -> ssl.SSLContext:
    """Return what trusts a file of certificates, read once: it holds the machine's own, too."""
    return ssl.create_default_context(cafile=trusted)


def client_of(double: ApiDouble) -> Client:
    """Return a client that has nothing but the environment that the double gives to a provider."""
    environment = double.environment()
    return Client(
        address=environment["ALIBABA_CLOUD_ENDPOINT_VPC"],
        trusted=environment["SSL_CERT_FILE"],
        key=environment["ALIBABA_CLOUD_ACCESS_KEY_ID"],
        secret=environment["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
    )


def flat(parameters: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Write lists and mappings as the RPC style does: `Tag=[{"Key": "a"}]` becomes `Tag.1.Key=a`."""
    flattened: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, dict):
            flattened |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            flattened |= flat({str(place): item for place, item in enumerate(value, 1)}, f"{prefix}{name}.")
        elif isinstance(value, bool):
            flattened[prefix + name] = str(value).lower()
        else:
            flattened[prefix + name] = str(value)
    return flattened


def sha1(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()).decode()
