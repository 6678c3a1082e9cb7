"""Write the reports of the recorded previews into docs/review.md: `python -m tests.unit.athanor.review.page`."""

from __future__ import annotations

import sys
from pathlib import Path

from athanor.review.reading import read_preview
from athanor.review.report import MARK, report
from athanor.review.running_work import running
from athanor.review.stack_review import stack_review
from infra.cost import list_prices
from tests.unit.athanor.review.recorded import NAMES, RUNNING, preview_file

PAGE = Path(__file__).resolve().parents[4] / "docs" / "review.md"
BEGIN = "<!-- reports: written by `python -m tests.unit.athanor.review.page` -->\n"
END = "<!-- end of reports -->\n"


def recorded_report(name: str) -> str:
    """Return the report of a recorded preview, with the work that ran then."""
    preview = read_preview(preview_file(name).read_text(encoding="utf-8"))
    return report([stack_review(preview, list_prices(), running(RUNNING.read_text(encoding="utf-8")))])


def page_with_reports(page: str) -> str:
    """Return the page with everything between the marks written again."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE.name} lacks {BEGIN}"
    assert end, f"{PAGE.name} lacks {END}"
    titles = {name: name.replace("-", " ").replace("gpu", "GPU").capitalize().replace("gpu", "GPU") for name in NAMES}
    reports = [f"\n### {titles[name]}\n\n{_demoted(recorded_report(name))}" for name in NAMES]
    return before + BEGIN + "".join(reports) + "\n" + END + after


def _demoted(text: str) -> str:
    """Return a report as a part of a page: its headings are three levels lower."""
    lines = [f"###{line}" if line.startswith(("# ", "## ", "### ")) else line for line in text.splitlines()]
    return "\n".join(line for line in lines if line != MARK) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page_with_reports(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
