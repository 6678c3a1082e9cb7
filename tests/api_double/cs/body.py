"""Read JSON request bodies, whose fields may be missing or null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.protocol import Request


def body_of(request: Request) -> dict[str, Any]:
    """Return the body, empty where there is none."""
    body: dict[str, Any] | None = request.body
    return body or {}


def section(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object field, empty where it is missing or null."""
    fields: dict[str, Any] | None = content.get(name)
    return fields or {}


def items(content: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list field, empty where it is missing or null."""
    entries: list[Any] | None = content.get(name)
    return entries or []
