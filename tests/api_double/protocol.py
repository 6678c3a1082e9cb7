"""What a service of the double sees of a request, and how it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Answer: TypeAlias = dict[str, Any] | list[Any]

_INDEXED = re.compile(r"(?P<index>\d+)(?:\.(?P<rest>.+))?")


class ApiError(Exception):
    """The answer is an error of the API: HTTP status, code and message as the cloud gives them."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"{status} {code}: {message}")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call of the API, its signature already checked."""

    product: str
    """The service, in lower case: `vpc`, `ecs`, `cs` …"""
    operation: str
    """The RPC action, or the operation name of the ROA route."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """RPC: query and form merged, without what every call carries (signature, version …). ROA: the query."""
    method: str = "POST"
    path: str = "/"
    body: Any = None
    """ROA: the parsed JSON body, or None where there is none."""
    region: str
    access_key_id: str = ""
    client_token: str = ""
    """What makes a repeated call the same call; empty where the caller gave none."""

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters, under the name that ROA services know them by."""
        return self.parameters

    def get(self, name: str, default: str = "") -> str:
        """Return a parameter, or the default where it is missing or empty."""
        return self.parameters.get(name) or default

    def required(self, name: str) -> str:
        """Return a parameter that must be there.

        Raises:
            ApiError: MissingParameter.
        """
        value = self.get(name)
        if not value:
            raise ApiError(
                400,
                "MissingParameter",
                f'The input parameter "{name}" that is mandatory for processing this request is not supplied.',
            )
        return value

    def number(self, name: str, default: int) -> int:
        """Return a whole number.

        Raises:
            ApiError: InvalidParameter, where the value is none.
        """
        value = self.get(name)
        if not value:
            return default
        try:
            return int(value)
        except ValueError:
            raise ApiError(400, f"InvalidParameter.{name}", f"{name} {value!r} is not a number.") from None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a Boolean, which the API writes as text."""
        value = self.get(name)
        return value.lower() == "true" if value else default

    def one_of(self, name: str, allowed: tuple[str, ...], default: str = "") -> str:
        """Return a parameter with a closed set of values.

        Raises:
            ApiError: InvalidParameter, where the value is another.
        """
        value = self.get(name, default)
        if value and value not in allowed:
            raise ApiError(400, f"InvalidParameter.{name}", f"{name} {value!r} is not one of {', '.join(allowed)}.")
        return value

    def repeated(self, name: str) -> list[dict[str, str]]:
        """Return a list parameter: `Tag.1.Key=a&Tag.1.Value=b` gives `[{"Key": "a", "Value": "b"}]`.

        An item without fields (`Id.1=x`) is `{"": "x"}`.
        """
        items: dict[int, dict[str, str]] = {}
        for key, value in self.parameters.items():
            if not key.startswith(f"{name}."):
                continue
            match = _INDEXED.fullmatch(key[len(name) + 1 :])
            if match:
                items.setdefault(int(match["index"]), {})[match["rest"] or ""] = value
        return [items[index] for index in sorted(items)]

    def values(self, name: str) -> list[str]:
        """Return a list of plain values: `Id.1=x&Id.2=y` gives `["x", "y"]`."""
        return [item[""] for item in self.repeated(name) if "" in item]


@dataclass(frozen=True)
class Route:
    """One ROA operation: a method and a path pattern such as `/clusters/{cluster_id}`."""

    method: str
    pattern: str
    operation: str
    handler: Callable[..., Answer | None]
    """Called as `handler(account, request, **names_in_the_pattern)`; None answers 204."""

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """Return the names in the path, or None where this is another operation."""
        if method != self.method:
            return None
        expression = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.pattern.rstrip("/")))
        match = re.fullmatch(expression, path.rstrip("/"))
        return match.groupdict() if match else None
