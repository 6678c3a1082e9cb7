"""Read-only requests to Alibaba Cloud through the vendor's generic client.

Endpoints come from the same variables as the provider's (terraform-provider-alicloud, `loadEndpoint`), so that both use
the same ones.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from alibabacloud_tea_openapi import models
from alibabacloud_tea_openapi.client import Client
from darabonba.policy.retry import RetryOptions
from darabonba.runtime import RuntimeOptions
from Tea.exceptions import TeaException

from athanor.account.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSIONS = {
    "vpc": "2016-04-28",
    "ecs": "2014-05-26",
    "ram": "2015-05-01",
    "sts": "2015-04-01",
    "nas": "2017-06-26",
    "cs": "2015-12-15",
}
"""The products that are asked, with the API versions that the provider uses, too."""
_GLOBAL = {"ram": "ram.aliyuncs.com"}
_ITEMS_A_PAGE = 50
_MILLISECONDS = 30_000
_BUSY = ["Throttling", "Throttling.User", "Throttling.Api", "ServiceUnavailable", "InternalError"]
_BACKOFF: dict[str, Any] = {"policy": "Exponential", "period": 500, "cap": 10_000}
_AGAIN: list[dict[str, Any]] = [
    {
        "maxAttempts": 5,
        "errorCode": _BUSY,
        "exception": ["ThrottlingException", "ServerException"],
        "backoff": _BACKOFF,
    },
    {"maxAttempts": 2, "exception": ["RetryError"], "backoff": _BACKOFF},  # nobody answered
]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """An access key, with its token where it is a temporary one."""

    access_key_id: str
    access_key_secret: str
    security_token: str = ""


class Cloud:
    """The account and region of an environment.

    Args:
        region: such as cn-hangzhou.
        keys: the caller's; None sends unsigned requests, which only taking a role with an OIDC token allows.
        environment: variables that may name endpoints (`VPC_ENDPOINT` …) and the certificates to trust
            (`SSL_CERT_FILE`).
    """

    def __init__(self, region: str, keys: Keys | None, environment: Mapping[str, str]) -> None:
        self.region = region
        self._keys = keys
        self._environment = environment

    def rpc(self, product: str, operation: str, **query: str) -> dict[str, Any]:
        """Return the answer to an RPC operation.

        Raises:
            CloudError: it was refused, or nobody answered.
        """
        return self._ask(product, operation, "RPC", "/", {"RegionId": self.region, **query})

    def get(self, path: str, operation: str, **query: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the answer to a GET of the container service; `operation` names it in errors.

        Raises:
            CloudError: as `rpc`.
        """
        return self._ask("cs", operation, "ROA", path, query)

    def every(self, product: str, operation: str, place: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list; `place` says where in an answer they are, as `Vpcs.Vpc`.

        Raises:
            CloudError: as `rpc`.
        """
        page, seen = 1, 0
        while True:
            answer = self.rpc(product, operation, PageNumber=str(page), PageSize=str(_ITEMS_A_PAGE), **query)
            nested: Any = answer
            for name in place.split("."):
                nested = nested.get(name) or {}
            items = cast("list[dict[str, Any]]", nested or [])
            yield from items
            seen += len(items)
            if not items or seen >= int(answer.get("TotalCount", 0)):
                return
            page += 1

    def _ask(self, product: str, operation: str, style: str, path: str, query: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON
        parameters = models.Params(
            action=operation,
            version=VERSIONS[product],
            protocol="HTTPS",
            pathname=path,
            method="GET" if style == "ROA" else "POST",
            auth_type="AK" if self._keys else "Anonymous",
            style=style,
            req_body_type="formData",
            body_type="string",
        )
        try:
            answer = self._client(product).call_api(
                parameters, models.OpenApiRequest(query=dict(query)), RuntimeOptions()
            )
        except TeaException as error:
            # What was never answered has neither; its text says why.
            code = cast("str | None", getattr(error, "code", None)) or "no answer"
            message = cast("str | None", getattr(error, "message", None)) or str(error)
            raise CloudError(product, operation, code, message) from error
        return json.loads(cast("str", answer["body"]))

    def _client(self, product: str) -> Any:  # noqa: ANN401 - the vendor's client is not typed
        keys = self._keys
        config = models.Config(
            access_key_id=keys.access_key_id if keys else "",
            access_key_secret=keys.access_key_secret if keys else "",
            security_token=keys.security_token if keys else "",
            endpoint=self._endpoint(product),
            region_id=self.region,
            # The client brings its own authorities and would not look at what the machine or the user trusts.
            ca=self._environment.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile,
            read_timeout=_MILLISECONDS,
            connect_timeout=_MILLISECONDS,
            no_proxy=self._environment.get("NO_PROXY") or self._environment.get("no_proxy") or "",
            retry_options=RetryOptions({"retryable": True, "retryCondition": _AGAIN}),
        )
        return Client(config)

    def _endpoint(self, product: str) -> str:
        name = product.upper()
        given = self._environment.get(f"ALIBABA_CLOUD_ENDPOINT_{name}") or self._environment.get(f"{name}_ENDPOINT")
        return given or _GLOBAL.get(product, f"{product}.{self.region}.aliyuncs.com")
