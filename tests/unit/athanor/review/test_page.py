"""The page shows the reports that the code writes today."""

from __future__ import annotations

from tests.unit.athanor.review.page import PAGE, page_with_reports


def test_the_page_shows_the_recorded_previews() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_reports(page), (
        "run `python -m tests.unit.athanor.review.page`, which writes docs/review.md"
    )
