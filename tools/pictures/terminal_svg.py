"""The terminal output of a command as SVG."""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

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
