"""What was asked of the double, call by call, with secrets left out."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REDACTED = "[redacted]"
_SECRET_NAME = re.compile(r"password|secret|private_?key|keytab|(?<!client)(?<!client_)(?<!next)token", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class LoggedCall:
    """One call and how it was answered."""

    number: int
    """Position in time, from 1."""
    product: str
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Query and form (RPC) or query (ROA); secrets redacted."""
    body: object = None
    """The JSON body of an ROA call; secrets redacted."""
    path: str = "/"
    client_token: str = ""
    status: int
    """HTTP status; 0 where the connection was dropped before an answer."""
    code: str = ""
    """Code of the error; empty where the call succeeded."""


class RequestLog:
    """The calls in the order they were answered."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: list[LoggedCall] = []

    def add(self, **facts: Any) -> None:  # noqa: ANN401 - the fields of LoggedCall
        """Keep a call."""
        facts["parameters"] = redacted(facts.get("parameters", {}))
        facts["body"] = redacted(facts.get("body"))
        with self._changed:
            self._calls.append(LoggedCall(number=len(self._calls) + 1, **facts))
            self._changed.notify_all()

    def calls(self, operation: str | None = None, *, since: int = 0) -> list[LoggedCall]:
        """Return the calls (of one operation) whose number is above `since`."""
        with self._changed:
            return [call for call in self._calls[since:] if operation in {None, call.operation}]

    def wait_for(self, matches: Callable[[LoggedCall], bool], *, since: int = 0, timeout_seconds: float = 60) -> None:
        """Wait until a call that matches has been answered.

        Raises:
            TimeoutError: it did not come.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: any(map(matches, self._calls[since:])), timeout_seconds):
                raise TimeoutError(f"no such call within {timeout_seconds:.0f} s")


def redacted(content: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy without the values whose names say that they are secret."""
    if isinstance(content, dict):
        items = cast("dict[str, Any]", content)
        return {name: REDACTED if _SECRET_NAME.search(name) else redacted(value) for name, value in items.items()}
    if isinstance(content, list):
        elements = cast("list[Any]", content)
        return [redacted(element) for element in elements]
    return content
