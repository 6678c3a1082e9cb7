"""Columns are as wide as their longest cells."""

from __future__ import annotations

from athanor.inspection.columns import columns


def test_every_column_is_aligned_and_no_line_ends_with_spaces():
    assert columns([["RUN", "PHASE"], ["train-22", ""], ["a", "Running"]]) == [
        "RUN       PHASE",
        "train-22",
        "a         Running",
    ]
