"""A call as it came over the wire, before it is known what it asks for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Call:
    """An HTTP request."""

    method: str
    target: str
    """Path and query as sent."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = b""

    @cached_property
    def path(self) -> str:
        """The path, still percent-encoded."""
        return urlsplit(self.target).path

    @cached_property
    def query(self) -> dict[str, str]:
        """The query's parameters."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @cached_property
    def form(self) -> dict[str, str]:
        """The body's parameters, where it is a form."""
        if not self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return {}
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def version(self) -> str:
        """The API version, which identifies the service."""
        return self.query.get("Version") or self.form.get("Version") or self.headers.get("x-acs-version", "")

    @property
    def action(self) -> str:
        """The RPC action; empty in an ROA call that names none."""
        return self.query.get("Action") or self.form.get("Action") or self.headers.get("x-acs-action", "")

    def json(self) -> Any:  # noqa: ANN401 - whatever was sent
        """Return the parsed body, or None where there is none.

        Raises:
            ApiError: it is not JSON.
        """
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            raise ApiError(400, "InvalidRequestBody", "The request body is not JSON.") from None
