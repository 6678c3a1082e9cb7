"""`make pictures`: draw the dashboard of the last run, and record the end of `make up`."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

from infra.monitoring.dashboards import training_job
from tools.local_environment.stack import STACK
from tools.local_environment.up import up
from tools.operations.dashboards.commands import View, draw, environments_own
from tools.operations.dashboards.prometheus import Prometheus
from tools.operations.target import Place
from tools.paths import REPOSITORY
from tools.pictures.board_svg import board_svg
from tools.pictures.terminal_svg import end_of_output, terminal_svg
from tools.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.progress import Progress

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
