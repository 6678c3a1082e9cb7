"""Output in a terminal: text is only displayed, control characters are never obeyed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from athanor.command_line import PIPE_CLOSED, discard_output
from athanor.inspection.control_characters import written_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text


def status_of(command: Callable[[], int | None]) -> int | None:
    """Run a command and return its exit status, 141 where nobody reads on, such as a `head` that has enough."""
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return PIPE_CLOSED


class Terminal(Console):
    """A console that writes out whatever a terminal would obey: a pod's message may hold any character."""

    def render_str(self, text: str, **how: Any) -> Text:  # noqa: ANN401 - the base class's own
        """Return a text to show; all that is printed passes here, cells and titles of tables, too."""
        # Before markup is read, and only ever longer: nothing becomes markup that was not markup before.
        return super().render_str(written_out(text), **how)


def terminal(file: TextIO) -> Terminal:
    """Return the terminal behind a file; where the output is none it is a log, whose lines need not fit 80 columns."""
    return Terminal(file=file, highlight=False, emoji=False, width=None if file.isatty() else 140)
