"""The last error in a program's log, which explains why the program ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_LINES = 5
_LINES_BEHIND = 30
"""Lines after a traceback beyond which it is not the cause of the end; mpirun's report is shorter."""
# torch.distributed writes `[rank3]: ` before each line of a traceback, torchrun `[default3]:` where it tees.
_MARK = r"(?:\[[a-z]+[0-9]+\]: ?)?"
_HEADER = re.compile(rf"({_MARK})(?:Original |(?P<group>  \+ Exception Group ))?Traceback \(most recent call last\):")
"""Header of a traceback, also of the one that torch repeats in an error: that of a DataLoader's worker, whose cause it
does not name."""
_END_OF_GROUP = re.compile(r" {4}\+-{30,}")
_FRAME = re.compile(r"[ |]*\|(?:  |\s*(?:Exception Group )?Traceback \(most)")
"""A line of an exception group that is not of an error's message."""
_OF_TORCHRUN = "torch.distributed.elastic."
"""Beginnings of the exceptions that torchrun itself ends with."""
_RULE = re.compile(r"={20,}")
_CARETS = re.compile(r"[\s|~^]+")
_MESSAGE_LINES = 15
"""Most lines of an error, such as the list of what pydantic found wrong; more are left out before the last one."""
_OTHERS = re.compile(
    r"\[[a-z]+[0-9]+\]: ?|[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d|[{=]|-{20,}|athanor: |stopped: |rank \d+ failed with "
)
"""Beginnings of lines that launchers, loggers and other ranks print after an error."""
_CHAINED = {
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
}


def last_words(lines: Sequence[str]) -> list[str]:
    """Return the end of the last traceback of the program's own with its whole error, else its last lines.

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
        if not end:
            continue
        if len(lines) - end > _LINES_BEHIND:
            return []
        behind = _end_of_message(lines, start, end)
        calls = [_unmarked(lines[start], line) for line in lines[start : end - 1]]
        calls = [line for line in calls if not _CARETS.fullmatch(line)]
        latest = [] if _is_group(lines[start]) else calls[-(SHOWN_LINES - 1) :]
        return [*_causes(lines, start), *latest, *_message(lines, start, end, behind)]
    return []


def _message(lines: Sequence[str], start: int, end: int, behind: int) -> list[str]:
    """Return the error of a traceback, of a group those in it.

    Args:
        lines: The log.
        start: Where its traceback begins.
        end: The index after the first line of its message.
        behind: The index after its message.
    """
    is_group = _is_group(lines[start])
    message = [_unmarked(lines[start], line) for line in lines[start + 1 if is_group else end - 1 : behind]]
    return _shortened([line for line in message if line.strip(" |") and not (is_group and _FRAME.match(line))])


def _causes(lines: Sequence[str], start: int) -> list[str]:
    """Return the errors before the one whose traceback begins at a line, each with the words after it."""
    between = [place for place in range(max(0, start - 3), start) if _unmarked(lines[start], lines[place]) in _CHAINED]
    if not between:
        return []
    for place in range(between[0] - 1, -1, -1):
        if end := _end_of_traceback(lines, place):
            words = _unmarked(lines[start], lines[between[0]])
            return [*_causes(lines, place), *_message(lines, place, end, between[0]), words]
    return []


def _end_of_message(lines: Sequence[str], start: int, end: int) -> int:
    """Return the index after the message of an error, which may have several lines.

    Args:
        lines: The log.
        start: Where its traceback begins.
        end: The index after the first line of its message.
    """
    if _is_group(lines[start]) or (end == len(lines) and lines[end - 1].startswith((" ", "\t"))):
        return end  # or a traceback that breaks off
    mark = _mark(lines[start])
    for place in range(end, min(len(lines), end + _LINES_BEHIND)):
        if not lines[place].startswith(mark):
            return place
        line = lines[place].removeprefix(mark)
        if not line.strip() or _HEADER.match(line) or _OTHERS.match(line):
            return place
    return min(len(lines), end + _LINES_BEHIND)


def _shortened(message: list[str]) -> list[str]:
    return message if len(message) <= _MESSAGE_LINES else [*message[: _MESSAGE_LINES - 2], "…", message[-1]]


def _end_of_traceback(lines: Sequence[str], start: int) -> int:
    """Return the index after the exception of a traceback that begins at a line; 0 if none does there."""
    if not _HEADER.match(lines[start]):
        return 0
    is_group = _is_group(lines[start])
    for place in range(start + 1, len(lines)):
        line = _unmarked(lines[start], lines[place])
        if _END_OF_GROUP.fullmatch(line) if is_group else not line.startswith((" ", "\t")):
            return place + 1
    return len(lines)


def _is_group(header: str) -> bool:
    match = _HEADER.match(header)
    return bool(match and match["group"])


def _unmarked(header: str, line: str) -> str:
    """Return a line of a traceback without the mark that its header has."""
    return line.removeprefix(_mark(header))


def _mark(header: str) -> str:
    match = _HEADER.match(header)
    return match.group(1) if match else ""


def _end_of_report(lines: Sequence[str], start: int) -> int:
    """Return the index after the report between two rules that follows torchrun's traceback; `start` without any."""
    rules = [place for place in range(start, len(lines)) if _RULE.fullmatch(lines[place].strip())]
    return rules[1] + 1 if len(rules) > 1 and rules[0] == start else start
