"""Writes the sections of docs/dashboards.md from the dashboards, so that they always agree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards import dashboards
from tools.paths import REPOSITORY
from tools.upkeep.generated_section import with_section

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = REPOSITORY / "docs" / "dashboards.md"
BEGIN = "<!-- panels: written by `python -m tools.upkeep.dashboards_page` -->\n"
END = "<!-- end of panels -->\n"


def page_with_panels(page: str) -> str:
    """Return the page with the generated part up to date.

    Raises:
        RefusalError: the page lacks a marker.
    """
    return with_section(page, PAGE, (BEGIN, END), "".join(_section(board) for board in dashboards().values()))


def _section(board: Mapping[str, Any]) -> str:
    text = f"\n## {board['title']}\n\n{board['description']}\n"
    for panel in board["panels"]:
        if panel["type"] == "row":
            text += f"\n**{panel['title']}**\n\n"
        else:
            asks, _, _ = panel["description"].partition("\n")
            text += f"- {panel['title']}: {asks}\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with_panels(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)} written\n")
