"""The trace that a request belongs to, according to its client.

Source: W3C Trace Context, "traceparent Header". A value that is not one is ignored, as the standard asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_CHARACTERS = 512
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The span of the client in which it sent the request."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    sampled: bool
    """The client records this trace."""


def parse(values: Sequence[str]) -> TraceContext | None:
    """Return the context in a request's traceparent headers; None unless there is exactly one, and it is valid."""
    if len(values) != 1 or len(values[0]) > _MAX_CHARACTERS:
        return None
    match = _TRACEPARENT.fullmatch(values[0])
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    is_known_form = version != "ff" and (version != "00" or more is None)
    if not is_known_form or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, sampled=bool(int(flags, 16) & _SAMPLED))
