"""Tables in the terminal, in one style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Cell = str | Text
"""Plain text from any source, or text in colours."""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str | None = None) -> Table:
    """Return a table in the project's look, with a line below it where there is something to add."""
    result = Table(
        *columns,
        title=escape(title),
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for row in rows:
        # A name or a message may look like markup: `[/data]` would vanish, or end the command as an error.
        result.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    return result
