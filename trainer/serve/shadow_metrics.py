"""Metrics of the shadow: outcomes of its requests, and the difference of its answers from ours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, get_args

from trainer.serve.metrics import REQUEST_SECONDS_BUCKETS, Histogram, family, family_head
from trainer.serve.shadow_comparison import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

FailureReason = Literal["connection", "timeout", "status", "answer"]
"""There was no connection or it broke, no answer in time, another status than 200, or an answer that is none."""
Outcome = Literal["equal", "different", "failed", "dropped"]

DIFFERENCE_BUCKETS = (0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)
_REASONS: dict[Outcome, tuple[str, ...]] = {
    "equal": ("",),
    "different": get_args(Reason),
    "failed": get_args(FailureReason),
    "dropped": ("queue_full",),
}


class ShadowMetrics:
    """Belongs to the event loop's thread."""

    def __init__(self) -> None:
        # zeros, too: Prometheus sees no increase of a series that begins at 1
        self.requests: Counter[tuple[Outcome, str]] = Counter(
            {(outcome, reason): 0 for outcome, reasons in _REASONS.items() for reason in reasons}
        )
        """By outcome and reason. The dropped ones were not sent; the others were."""
        self.difference = Histogram(DIFFERENCE_BUCKETS)
        """Largest absolute difference of two values of a request, where both are finite and have the same shape."""
        self.own_seconds = Histogram(REQUEST_SECONDS_BUCKETS)
        """From a request's first byte to our answer, of the requests that were compared."""
        self.shadow_seconds = Histogram(REQUEST_SECONDS_BUCKETS)
        """From sending the same requests to the shadow's answers."""

    def lines(self) -> Iterable[str]:
        """Return the lines of the text format."""
        counts = [({"outcome": outcome, "reason": reason}, count) for (outcome, reason), count in self.requests.items()]
        yield from family("athanor_shadow_requests", "counter", "Requests for the shadow by outcome", counts)
        name = "athanor_shadow_difference"
        yield from family_head(name, "histogram", "Largest difference of an answer of the shadow")
        yield from self.difference.samples(name, {})
        name = "athanor_shadow_duration_seconds"
        yield from family_head(name, "histogram", "Time of compared requests here and at the shadow")
        yield from self.own_seconds.samples(name, {"server": "own"})
        yield from self.shadow_seconds.samples(name, {"server": "shadow"})
