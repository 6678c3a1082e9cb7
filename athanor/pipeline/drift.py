"""`athanor drift`: a report of the differences between the state of stacks and the real resources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from athanor.review.engine import engine_drift
from athanor.review.prices import prices_for
from athanor.review.report import Heading, report
from athanor.review.stack_review import stack_review
from athanor.review.verdict import UNREADABLE, exit_status

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    """Write the report of some stacks; return 0 without drift, else the exit status of verdict.py.

    Args:
        arguments: as athanor/pipeline/arguments.py parses them.
    """
    try:
        stacks: list[str] = arguments.stack
        drifts = [engine_drift(stack) for stack in stacks]
        reviews = [stack_review(each, prices_for(each.config), "not asked") for each in drifts]
        arguments.output.write_text(report(reviews, heading=heading(stacks)), encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"athanor drift: {error}\n")
        return UNREADABLE
    return exit_status(reviews, "change")


def heading(stacks: list[str]) -> Heading:
    """Return the mark and the title of the report about some stacks."""
    return Heading(mark=f"<!-- athanor drift {' '.join(stacks)} -->", title="Drift: what a refresh would change")
