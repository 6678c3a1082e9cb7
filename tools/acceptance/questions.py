"""Optional queries to the cloud, whose refusal is an answer, too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from athanor.account.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from tools.acceptance.findings import Findings

    Answer = TypeVar("Answer")


def items(answer: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return a list in an answer; `place` says where, as `AvailableZones.AvailableZone`. What is missing is empty."""
    value: Any = answer
    for name in place.split("."):
        value = value.get(name) or {}
    return cast("list[dict[str, Any]]", value or [])


def optional(findings: Findings, question: str, ask: Callable[[], Answer]) -> Answer | None:
    """Return the answer to a question, which becomes evidence; None where the cloud refuses it."""
    try:
        answer = ask()
    except CloudError as error:
        findings.saw(question, f"not answered: {error}")
        return None
    findings.saw(question, json.dumps(answer, indent=1, ensure_ascii=False))
    return answer
