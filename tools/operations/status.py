"""The tables of `make status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from athanor.inspection.status import NOT_READY, PODS, READY, status
from tools.tables import Cell, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from athanor.inspection.objects import Snapshot
    from athanor.inspection.status import Part

_COLOURS = {READY: "green", NOT_READY: "yellow"}


def status_tables(snapshot: Snapshot, now: datetime, platform_namespaces: Sequence[str] = ()) -> list[Table]:
    """Return the tables of the status: jobs, services, pods, GPUs by queue and by node; arguments as `status`."""
    return [
        table(part.title, part.headings, _cells(part), part.caption or None)
        for part in status(snapshot, now, platform_namespaces)
    ]


def _cells(part: Part) -> Sequence[Sequence[Cell]]:
    return [list(map(_coloured, row)) for row in part.rows] if part.title == PODS else part.rows


def _coloured(cell: str) -> Cell:
    return Text(cell, _COLOURS[cell]) if cell in _COLOURS else cell
