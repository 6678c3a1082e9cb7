"""Failures on request: what a call meets instead of, or after, being carried out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping  # noqa: TC003 - read by dataclasses when a fault is parsed from JSON
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tests.api_double.protocol import ApiError

Effect = Literal["error", "drop", "lose_answer", "hold", "expire"]
ALWAYS = 10**9
"""For `Fault.times`: as good as forever."""
HOLD_SECONDS = 300.0
"""A held call continues by itself after that, so that a forgotten one ends."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure, met by some calls of an operation and then spent."""

    operation: str
    """Name of the operation, such as CreateVpc, or * for any."""
    effect: Effect = "error"
    """error: refused. drop: the connection ends before anything is done. lose_answer: done, but the connection ends
    before the answer. hold: done, and the answer waits for `Faults.release`. expire: done, and the caller's temporary
    key is good for nothing from then on."""
    call: int = 1
    """The first call of an operation, counted from 1 and from when the fault was added, that meets it. With `*` each
    operation's calls are counted for themselves, as a cloud limits them: counted together, a retry in step with other
    calls would meet the fault forever, and so would an update that starts with the same calls each time."""
    every: int = 1
    """From then on each so-manyth call of the operation meets it."""
    times: int = 1
    """How many calls meet it."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Only calls with these parameters match; a field of a JSON body is one by its path, such as nodepool_info.name."""
    status: int = 500
    code: str = "InternalError"
    message: str = "The request processing has failed due to some unknown error."

    def matches(self, operation: str, parameters: Mapping[str, str]) -> bool:
        """Tell whether a call is one of those that count."""
        return self.operation in {operation, "*"} and self.where.items() <= parameters.items()


def throttling(operation: str, *, call: int = 1, every: int = 1, times: int = 1) -> Fault:
    """Return "too many requests of this user"."""
    message = "Request was denied due to user flow control."
    fault = Fault(operation=operation, status=400, code="Throttling.User", message=message)
    return replace(fault, call=call, every=every, times=times)


def server_error(operation: str, *, status: int = 503, call: int = 1, every: int = 1, times: int = 1) -> Fault:
    """Return a failure of the cloud itself: 500 or 503."""
    code = "ServiceUnavailable" if status == 503 else "InternalError"
    message = "The request has failed due to a temporary failure of the server."
    fault = Fault(operation=operation, status=status, code=code, message=message)
    return replace(fault, call=call, every=every, times=times)


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


@dataclass
class _Waiting:
    """A fault that is not spent."""

    fault: Fault
    calls: Counter[str] = field(default_factory=Counter[str])
    """Matching calls so far, by operation."""
    met: int = 0
    """How many of them met it."""

    def is_due(self, operation: str, parameters: Mapping[str, str]) -> bool:
        """Count a call if it matches, and tell whether it meets the fault."""
        fault = self.fault
        if not fault.matches(operation, parameters):
            return False
        self.calls[operation] += 1
        after_first = self.calls[operation] - fault.call
        return after_first >= 0 and after_first % fault.every == 0

    def wait(self, operation: str) -> None:
        """Leave the fault to the operation's next call."""
        self.calls[operation] -= 1

    @property
    def is_spent(self) -> bool:
        """Whether no further call meets it."""
        return self.met >= self.fault.times


class Faults:
    """The faults that wait for their calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._released = threading.Event()

    def add(self, *faults: Fault) -> None:
        """Let calls from now on meet these."""
        with self._lock:
            self._released.clear()
            self._waiting += [_Waiting(fault) for fault in faults]

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
            return [{**asdict(waiting.fault), "seen": waiting.calls.total()} for waiting in self._waiting]

    def meet(self, operation: str, parameters: Mapping[str, str]) -> Fault | None:
        """Return the fault that this call meets, if any, and count the call for each that it matches."""
        met: Fault | None = None
        with self._lock:
            for waiting in self._waiting:
                if not waiting.is_due(operation, parameters):
                    continue
                if met is None:
                    met = waiting.fault
                    waiting.met += 1
                else:
                    waiting.wait(operation)  # one failure a call
            self._waiting = [waiting for waiting in self._waiting if not waiting.is_spent]
        return met


def as_error(fault: Fault) -> ApiError:
    """Return the error that a fault answers with."""
    return ApiError(fault.status, fault.code, fault.message)
