"""The generated part of a page of docs/: the lines between two markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from pathlib import Path


def with_section(page: str, file: Path, markers: tuple[str, str], content: str) -> str:
    """Return a page with `content` between its markers.

    Args:
        page: the text as it is.
        file: where it is from, for messages.
        markers: the line before the generated part and the one after it.
        content: what the part shall be, with the newline at its end.

    Raises:
        RefusalError: the page lacks a marker.
    """
    begin, end = markers
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        fix = f"restore {begin.strip()} and {end.strip()}, each on its own line"
        raise RefusalError("page", file.name, "lacks a marker", fix)
    return before + begin + content + end + after
