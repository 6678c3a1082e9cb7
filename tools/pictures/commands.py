"""`make pictures`: draw the dashboard of the last run, and record the end of `make up`."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from infra.monitoring.dashboards import training_job
from tools.local_environment.stack import STACK
from tools.local_environment.up import up
from tools.operations.dashboards.commands import View, draw, environments_own
from tools.operations.dashboards.prometheus import Prometheus
from tools.operations.target import Place
from tools.paths import REPOSITORY
from tools.pictures.board_svg import board_svg
from tools.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.progress import Progress

# rich's own template loads a font from another server, which no page that shows the picture may do.
_TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Terminal">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}}
.{unique_id}-title {{ font: 600 16px system-ui, sans-serif; }}
{styles}
</style>
<defs>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def end_of_output(printed: str, first: str) -> list[Text]:
    """Return the lines from a heading on.

    Args:
        printed: Output with ANSI colours.
        first: The heading, alone on its line.

    Raises:
        ValueError: there is no such line.
    """
    lines = [Text.from_ansi(line) for line in printed.rstrip().splitlines()]
    for line in lines:
        line.rstrip()
    headings = [index for index, line in enumerate(lines) if line.plain == first]
    if not headings:
        raise ValueError(f"the output has no line {first!r}. Fix: name a heading that it has")
    return lines[headings[-1] :]


def terminal_svg(title: str, lines: list[Text]) -> str:
    """Return the SVG of a terminal that shows these lines, in a window with a title."""
    width = max(len(line.plain) for line in lines)
    console = Console(record=True, file=io.StringIO(), width=width, highlight=False, emoji=False)
    console.print(*lines, sep="\n", soft_wrap=True)
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=_TEMPLATE, unique_id="terminal")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


FOLDER = REPOSITORY / "docs" / "pictures"
DASHBOARD, END_OF_UP = FOLDER / "job-dashboard.svg", FOLDER / "make-up.svg"
_FIRST_HEADING = "Services"
"""Heading below paths of this machine and a table that is wider than a page."""
_COLUMNS = 140


def draw_pictures(names: Sequence[str], report: Progress) -> None:
    """Draw pictures of the README.

    Args:
        names: `dashboard` for the job that trained last, `up` for the end of `make up`, which runs again for it.
        report: Where progress goes.

    Raises:
        ValueError: the job that trained last has no data for a panel of the picture.
        PrometheusError: Prometheus does not answer.
    """
    FOLDER.mkdir(exist_ok=True)
    if "dashboard" in names:
        DASHBOARD.write_text(_dashboard(report), encoding="utf-8")
    if "up" in names:
        END_OF_UP.write_text(_end_of_up(report), encoding="utf-8")


def _dashboard(report: Progress) -> str:
    with environments_own(Place(stack=STACK), report) as address:
        pages = draw(Prometheus(address), View(), time.time())
    return board_svg(next(page for page in pages if page.board["uid"] == training_job.UID))


def _end_of_up(report: Progress) -> str:
    printed = io.StringIO()
    up(Terminal(file=printed, force_terminal=True, color_system="standard", width=_COLUMNS, highlight=False), report)
    return terminal_svg("make up", end_of_output(printed.getvalue(), _FIRST_HEADING))
