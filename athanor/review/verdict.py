"""The exit status of a report, by which a pipeline decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.review.stack_review import StackReview

Threshold = Literal["never", "destructive", "replace", "change"]
THRESHOLDS: tuple[Threshold, ...] = ("never", "destructive", "replace", "change")

PASSED = 0
"""Nothing changes, or nothing that reaches the threshold."""
UNREADABLE = 1
"""A file could not be read, or the engine not started: there is no report."""
WRONG_ARGUMENTS = 2
DESTRUCTIVE = 3
"""A cluster, a pool, a volume, a running job, a service or a queue would be replaced or deleted."""
CHANGES = 4
"""There are changes at or above the threshold, none of them destructive."""
FAILED = 5
"""At least one preview failed, or violates a mandatory policy: what else it would do is not known."""


def exit_status(reviews: Sequence[StackReview], threshold: Threshold) -> int:
    """Return the exit status: of a failed preview whatever the threshold, else of the worst change that reaches it."""
    if any(review.preview.failed for review in reviews):
        return FAILED
    if threshold == "never":
        return PASSED
    if any(review.destructive for review in reviews):
        return DESTRUCTIVE
    counts = [review.counts for review in reviews]
    replaced = any(count["replaced"] or count["deleted"] or count["forgotten"] for count in counts)
    changed = any(any(count.values()) for count in counts)
    if (threshold == "replace" and replaced) or (threshold == "change" and changed):
        return CHANGES
    return PASSED
