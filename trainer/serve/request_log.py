"""The request log: which inference requests get a line, and its contents.

All values come from clients: unprintable characters are escaped, and long values are cut. Clients must not fill the log
either, so the number of lines per second is limited unless all requests are to be logged.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trainer.common.log_lines import FIELDS_ATTRIBUTE
from trainer.serve import trace_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

Choice = Literal["none", "failed", "all"]

MAX_LINES_PER_SECOND = 10
"""Limit unless all requests are to be logged."""
MAX_ID_CHARACTERS = 128
MAX_REASON_CHARACTERS = 500
_HEADER_ID = re.compile(rf"[!-~]{{1,{MAX_ID_CHARACTERS}}}")
_ID_HEADERS = ("x-request-id", "triton-request-id")


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """The record of one inference request; it grows as the request is understood."""

    protocol: Literal["http", "grpc"]
    headers: Callable[[str], Sequence[str]]
    """Returns the values of a header, or of gRPC metadata, by its name in lower case."""
    began: float
    """Time when it came, by time.perf_counter."""
    body_id: str | None = None
    """The `id` in the protocol's message, as it came."""
    model: str = ""
    """Empty until a version was chosen."""
    version: int = 0
    decoded: float = 0.0
    """Time when it was in the queue; this and the following by time.perf_counter, 0 where it did not get so far."""
    compute_began: float = 0.0
    compute_ended: float = 0.0
    batch_rows: int = 0
    """Rows of the batch that it was computed in."""
    encoded: float = 0.0

    @property
    def stages(self) -> Sequence[tuple[str, float, float]]:
        """Return name, begin and end of each stage that it completed."""
        stages = (
            ("decode", self.began, self.decoded),
            ("queue", self.decoded, self.compute_began),
            ("compute", self.compute_began, self.compute_ended),
            ("serialize", self.compute_ended, self.encoded),
        )
        return [stage for stage in stages if stage[2]]

    @property
    def id(self) -> str | None:
        """The request's id, safe to log: that of the message, else that of a header."""
        return printable(self.body_id, MAX_ID_CHARACTERS) if self.body_id else self.header_id

    @property
    def header_id(self) -> str | None:
        """The id in a header, if there is a valid one."""
        given = (valid_header_id(self.headers(name)) for name in _ID_HEADERS)
        return next(filter(None, given), None)


def valid_header_id(values: Sequence[str]) -> str | None:
    """Return the request id of a header; None unless there is one value, short and of visible ASCII characters."""
    return values[0] if len(values) == 1 and _HEADER_ID.fullmatch(values[0]) else None


def printable(text: str, limit: int) -> str:
    """Return a client's text for one line of the log: cut to `limit` characters, the unprintable ones escaped."""
    cut = f"{text[:limit]}…" if len(text) > limit else text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in cut)


class Observer(Protocol):
    """An observer of requests that ended."""

    def ended(self, record: RequestRecord, status: int | str, reason: str | None = None) -> None:
        """Take note of a request that was answered with an HTTP or gRPC status; `reason` says why it failed."""
        ...


class Observers:
    """Several that want to know."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def ended(self, record: RequestRecord, status: int | str, reason: str | None = None) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.ended(record, status, reason)


class LineLimit:
    """So many lines of a kind in a second, and how many there would have been beyond."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = -1
        self._lines = 0
        self._left_out = 0

    def take(self, now: float) -> bool:
        """Return whether one more line may be written at `now`, in seconds of any clock; count it either way."""
        second = int(now)
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines == self._per_second:
            self._left_out += 1
            return False
        self._lines += 1
        return True

    def take_left_out(self) -> int:
        """Return how many lines were not written since the last call."""
        left_out, self._left_out = self._left_out, 0
        return left_out


class RequestLog:
    """Belongs to the event loop's thread."""

    def __init__(self, choice: Choice, slow_seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Log requests that failed or took longer than `slow_seconds`, all of them or none."""
        self._choice = choice
        self._slow_seconds = slow_seconds
        self._clock = clock
        self._limit = LineLimit(MAX_LINES_PER_SECOND)

    def ended(self, record: RequestRecord, status: int | str, reason: str | None = None) -> None:
        """Note that a request was answered with an HTTP or gRPC status; `reason` says why it failed."""
        if self._choice == "none":
            return
        now = self._clock()
        seconds = now - record.began
        is_slow = seconds > self._slow_seconds
        if self._choice == "all" or ((reason is not None or is_slow) and self._limit.take(now)):
            self._write(record, status, seconds, reason)

    def _write(self, record: RequestRecord, status: int | str, seconds: float, reason: str | None) -> None:
        fields: dict[str, Any] = {"protocol": record.protocol, "status": status, "seconds": round(seconds, 6)}
        if record.model:
            fields |= {"model": record.model, "version": record.version}
        if record_id := record.id:
            fields["request_id"] = record_id
        if trace := trace_context.parse(record.headers("traceparent")):
            fields |= {"trace_id": trace.trace_id, "span_id": trace.span_id}
        if left_out := self._limit.take_left_out():
            fields["requests_not_logged"] = left_out
        name = f"request '{record_id}'" if record_id else "a request without id"
        outcome = "" if reason is None else f": {printable(reason, MAX_REASON_CHARACTERS)}"
        logger.log(
            logging.INFO if reason is None else logging.WARNING,
            "%s: %s after %.3f s%s",
            name,
            status,
            seconds,
            outcome,
            extra={FIELDS_ATTRIBUTE: fields},
        )
