"""Failures on request: what a call meets instead of, or after, being carried out."""

from __future__ import annotations

import threading
from collections.abc import Mapping  # noqa: TC003 - read by dataclasses when a fault is made from JSON
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tools.api_double.protocol import ApiError

Effect = Literal["error", "drop", "lose_answer", "hold"]
HOLD_SECONDS = 300.0
"""A held call goes on by itself after that, so that a forgotten one ends."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure, met by some calls of an operation and then spent."""

    operation: str
    """Name of the operation, such as CreateVpc, or * for any."""
    effect: Effect = "error"
    """error: refused. drop: the connection ends before anything is done. lose_answer: done, but the connection ends
    before the answer. hold: done, and the answer waits for `Faults.release`."""
    call: int = 1
    """The first matching call, counted from 1 and from when the fault was added, that meets it."""
    times: int = 1
    """How many matching calls in a row meet it."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Only calls with these parameters match."""
    status: int = 500
    code: str = "InternalError"
    message: str = "The request processing has failed due to some unknown error."

    def matches(self, operation: str, parameters: Mapping[str, str]) -> bool:
        """Tell whether a call is one of those that count."""
        return self.operation in {operation, "*"} and self.where.items() <= parameters.items()


def throttling(operation: str, *, call: int = 1, times: int = 1) -> Fault:
    """Return "too many requests of this user"."""
    message = "Request was denied due to user flow control."
    return Fault(operation=operation, call=call, times=times, status=400, code="Throttling.User", message=message)


def server_error(operation: str, *, status: int = 503, call: int = 1, times: int = 1) -> Fault:
    """Return a failure of the cloud itself: 500 or 503."""
    code = "ServiceUnavailable" if status == 503 else "InternalError"
    message = "The request has failed due to a temporary failure of the server."
    return Fault(operation=operation, call=call, times=times, status=status, code=code, message=message)


def quota_exceeded(operation: str, resource: str, *, call: int = 1, times: int = 1) -> Fault:
    """Return "you have too many": code `QuotaExceeded.<resource>`."""
    message = f"The maximum number of {resource} is exceeded. Please submit a ticket to raise the quota."
    code = f"QuotaExceeded.{resource}"
    return Fault(operation=operation, call=call, times=times, status=400, code=code, message=message)


def no_stock(operation: str, *, call: int = 1, times: int = 1) -> Fault:
    """Return "sold out in this zone"."""
    message = "The requested resource is sold out in the specified zone; try other types of resources or other zones."
    code = "OperationDenied.NoStock"
    return Fault(operation=operation, call=call, times=times, status=403, code=code, message=message)


class Faults:
    """The faults that wait for their calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Fault, int]] = []
        self._released = threading.Event()

    def add(self, *faults: Fault) -> None:
        """Let calls from now on meet these."""
        with self._lock:
            self._released.clear()
            self._waiting += [(fault, 0) for fault in faults]

    def clear(self) -> None:
        """Forget every fault; held calls go on."""
        with self._lock:
            self._waiting = []
        self.release()

    def release(self) -> None:
        """Let held calls go on."""
        self._released.set()

    def wait_for_release(self) -> None:
        """Wait as a held call does."""
        self._released.wait(HOLD_SECONDS)

    def waiting(self) -> list[dict[str, Any]]:
        """Return the faults that are not spent, each with the matching calls seen so far."""
        with self._lock:
            return [{**asdict(fault), "seen": seen} for fault, seen in self._waiting]

    def meet(self, operation: str, parameters: Mapping[str, str]) -> Fault | None:
        """Return the fault that this call meets, if any, and count the call for each that it matches."""
        met: Fault | None = None
        with self._lock:
            left: list[tuple[Fault, int]] = []
            for fault, seen_before in self._waiting:
                seen = seen_before + fault.matches(operation, parameters)
                due = seen > seen_before and seen >= fault.call
                if due and met is not None:
                    # one failure a call: this one waits for the next
                    seen = seen_before
                elif due:
                    met = fault
                if seen < fault.call + fault.times - 1:
                    left.append((fault, seen))
            self._waiting = left
        return met


def as_error(fault: Fault) -> ApiError:
    """Return the error that a fault answers with."""
    return ApiError(fault.status, fault.code, fault.message)
