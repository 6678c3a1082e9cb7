"""The code that the documentation shows, as programs that can be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).parent.parent / "docs" / "jobs.md"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'^(?:    )?[A-Z]\w+\(\n\s+f?"([a-z0-9-]+)', re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Example:
    """One block of code; `platform` is in scope."""

    heading: str
    name: str
    """Name of the (first) job that it declares."""
    code: str


def job_examples() -> list[Example]:
    """Return the examples of docs/jobs.md in their order."""
    text = JOBS.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        heading = next(each[1] for each in reversed(headings) if each.start() < block.start())
        name = _NAME.search(block[1])
        assert name is not None, f"an example below {heading!r} declares nothing"
        found.append(Example(heading=heading, name=name[1], code=block[1]))
    return found
