"""Removal of control characters from text that is printed in a terminal."""

from __future__ import annotations

import re

# ECMA-48, 5.4 (control sequences) and 5.6 (control strings): colours, cursor movements, titles, links.
_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)")
# C0 without the tab, C1, the characters of Unicode that turn the direction of a text or end its line, and halves of
# characters (RFC 8259, 8.2: JSON may name one alone), which no encoding has.
_HIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 200
"""Characters of a message that a sentence repeats."""


def printable(text: str) -> str:
    """Return a text without colours and with every other character that a terminal would obey written out.

    Of a line that was written over again and again (a progress bar) the last state is left, as a terminal shows it.
    """
    plain = _SEQUENCES.sub("", text)
    last = plain.rstrip("\r").rpartition("\r")[2]
    return _HIDDEN.sub(_as_code, last)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text on one line, cut between words: half a number would be another one."""
    line = printable(" ".join(text.split()))
    if len(line) <= longest:
        return line
    start = line[:longest]
    return f"{start.rpartition(' ')[0] or start} …"


def written_out(text: str) -> str:
    """Return a text of any number of lines with every character that a terminal would obey written out."""
    return "\n".join(_HIDDEN.sub(_as_code, line) for line in text.split("\n"))


def _as_code(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
