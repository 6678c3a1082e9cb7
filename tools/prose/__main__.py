"""Check the prose of the repository: `python -m tools.prose [file or folder …]`, part of `make check`."""

from __future__ import annotations

import bisect
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tools.paths import REPOSITORY
from tools.prose.texts import bound_names, function_names, markdown_prose, python_prose
from tools.prose.words import EMPTY_NAMES, RULES, Rule
from tools.terminal import status_of

if TYPE_CHECKING:
    from pathlib import Path

PLACES = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".github", "docs", "__main__.py", "hatch_build.py",
    "athanor", "benchmarks", "examples", "infra", "policies", "tests", "tools", "trainer", "workloads",
)  # fmt: skip
"""Files and folders that are checked."""
_QUOTING = "prose"
"""Folders of this name are about these phrases: this one, and its tests."""

_NAME = re.compile(rf"\b_?(?:{'|'.join(EMPTY_NAMES)})\b")


@dataclass(frozen=True, order=True)
class Finding:
    """A phrase or a name that we do not use."""

    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f'{self.line}: "{self.phrase}": write {self.instead}'


def phrases(prose: str) -> list[Finding]:
    """Return the phrases of a text that the rules exclude, by line. Lines count from 1."""
    breaks = [match.start() for match in re.finditer("\n", prose)]
    return sorted(
        Finding(bisect.bisect_left(breaks, match.start()) + 1, " ".join(match[0].split()), rule.instead)
        for rule in RULES
        for match in rule.compiled.finditer(prose)
        if not _is_excused(rule, prose[: match.start()])
    )


def sentences(source: str) -> list[Finding]:
    """Return the phrases in the names of a Python file's functions."""
    return [replace(each, line=line) for line, name in function_names(source) for each in phrases(name)]


def names(source: str) -> list[Finding]:
    """Return the names in a Python file that say nothing, where they are defined."""
    if not _NAME.search(source):
        return []
    return sorted(
        Finding(line, name, EMPTY_NAMES[name.lstrip("_")])
        for line, name in bound_names(source)
        if name.lstrip("_") in EMPTY_NAMES
    )


def _is_excused(rule: Rule, before: str) -> bool:
    return rule.excused is not None and rule.excused.search(before[-80:]) is not None


def findings(path: Path) -> list[Finding]:
    """Return the findings in a Markdown or a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return phrases(markdown_prose(text))
    return phrases(python_prose(text)) + sentences(text) + names(text)


def _files(places: tuple[str, ...]) -> list[Path]:
    files: set[Path] = set()
    for place in places:
        path = REPOSITORY / place
        files |= {path} if path.is_file() else {*path.rglob("*.md"), *path.rglob("*.py")}
    return sorted(file for file in files if _QUOTING not in file.relative_to(REPOSITORY).parts)


def main(places: tuple[str, ...]) -> int:
    """Print what to reword, in the places given or in all of PLACES, and return its number."""
    total = 0
    for file in _files(places or PLACES):
        for finding in findings(file):
            sys.stdout.write(f"{file.relative_to(REPOSITORY)}:{finding}\n")
            total += 1
    return total


if __name__ == "__main__":
    sys.exit(status_of(lambda: 1 if main(tuple(sys.argv[1:])) else 0))
