"""The complete report: a table of all stacks, then a section for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.review.cost_section import gpus_change, month_change, nodes_change
from athanor.review.folding import GITHUB_LIMIT, Block, fitted
from athanor.review.sections import blocks, result
from athanor.review.text import code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.review.stack_review import StackReview

MARK = "<!-- athanor review -->"
"""First line of a report: by it, a pipeline finds the comment to update."""
_MOST_STACKS = 100
_WITHOUT_LIMIT = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The beginning of a report."""

    mark: str = MARK
    """An HTML comment, which nobody sees."""
    title: str = "What this change does"


_CHANGE = Heading()


def report(reviews: Sequence[StackReview], limit: int = GITHUB_LIMIT, heading: Heading = _CHANGE) -> str:
    """Return the report of some stacks, in the order given, as GitHub Flavored Markdown.

    Args:
        reviews: one for each stack.
        limit: characters that it may have; 0 for no limit.
        heading: its mark and its title.
    """
    summary = Block(text=_summary(reviews, heading), rank=-1)
    parts = [summary, *(block for review in reviews for block in blocks(review))]
    return fitted(parts, limit or _WITHOUT_LIMIT)


def _summary(reviews: Sequence[StackReview], heading: Heading) -> str:
    lines = [
        heading.mark,
        f"# {heading.title}",
        "",
        f"| stack | result | deleted | replaced | changed | created | nodes | GPUs | {_currency(reviews)} a month |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(review) for review in reviews[:_MOST_STACKS]),
    ]
    if len(reviews) > _MOST_STACKS:
        lines.append(f"| and {len(reviews) - _MOST_STACKS:,} more | | | | | | | | |")
    return "\n".join(lines)


def _currency(reviews: Sequence[StackReview]) -> str:
    return ", ".join(sorted({review.prices.currency for review in reviews}))


def _row(review: StackReview) -> str:
    counts, capacity = review.counts, review.capacity
    cells = [
        code(review.preview.stack or "unnamed stack", 60),
        result(review),
        *(f"{counts[kind]:,}" for kind in ("deleted", "replaced", "changed", "created")),
        nodes_change(capacity),
        gpus_change(capacity),
        month_change(capacity),
    ]
    return f"| {' | '.join(cells)} |"
