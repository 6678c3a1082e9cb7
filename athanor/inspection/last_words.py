"""The lines of a log that say why its program ended: the last error of the program's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_LINES = 5
_LINES_BEHIND = 30
"""So many lines after a traceback it is no longer what the program ended with; mpirun's report is shorter."""
# torch.distributed writes `[rank3]: ` before each line of a traceback, torchrun `[default3]:` where it tees.
_MARK = r"(?:\[[a-z]+[0-9]+\]: ?)?"
_HEADER = re.compile(rf"({_MARK})Traceback \(most recent call last\):")
_OF_TORCHRUN = "torch.distributed.elastic."
"""How the exceptions begin that torchrun itself ends with."""
_RULE = re.compile(r"={20,}")
_CARETS = re.compile(r"[\s~^]+")


def last_words(lines: Sequence[str]) -> list[str]:
    """Return the end of the last traceback of the program's own, else its last lines.

    torchrun, which ends after the program, writes a traceback and a report of its own: they say that a rank failed, not
    why.
    """
    own = _without_torchrun(lines)
    return _last_traceback(own) or own[-SHOWN_LINES:] or list(lines[-SHOWN_LINES:])


def _without_torchrun(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    place = 0
    while place < len(lines):
        end = _end_of_traceback(lines, place)
        if end and _unmarked(lines[place], lines[end - 1]).startswith(_OF_TORCHRUN):
            place = _end_of_report(lines, end)
        else:
            kept.append(lines[place])
            place += 1
    return kept


def _last_traceback(lines: Sequence[str]) -> list[str]:
    for start in range(len(lines) - 1, -1, -1):
        end = _end_of_traceback(lines, start)
        if end:
            if len(lines) - end > _LINES_BEHIND:
                return []
            said = [_unmarked(lines[start], line) for line in lines[start:end]]
            return [line for line in said if not _CARETS.fullmatch(line)][-SHOWN_LINES:]
    return []


def _end_of_traceback(lines: Sequence[str], start: int) -> int:
    """Return the place behind the exception of a traceback that begins at a line; 0 if none does there."""
    if not _HEADER.match(lines[start]):
        return 0
    for place in range(start + 1, len(lines)):
        if not _unmarked(lines[start], lines[place]).startswith((" ", "\t")):
            return place + 1
    return len(lines)


def _unmarked(header: str, line: str) -> str:
    """Return a line of a traceback without the mark that its header has."""
    match = _HEADER.match(header)
    return line.removeprefix(match.group(1)) if match else line


def _end_of_report(lines: Sequence[str], start: int) -> int:
    """Return the place behind the report between two rules that follows torchrun's traceback; `start` without any."""
    rules = [place for place in range(start, len(lines)) if _RULE.fullmatch(lines[place].strip())]
    return rules[1] + 1 if len(rules) > 1 and rules[0] == start else start
