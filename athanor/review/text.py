"""Escaping of untrusted text in Markdown: names of resources are never interpreted.

Inside code no Markdown, HTML, link, emoji or @mention is active. Source: GitHub Flavored Markdown, "Code spans",
"Fenced code blocks" and "Tables (extension)", whose cells a backslash or a pipe can break even inside code.
"""

from __future__ import annotations

import re
import unicodedata

_PLAIN = re.compile(r"[^`|\\]+")
_LETTERS = re.compile(r"[^A-Za-z0-9 -]")
_FENCES = re.compile(r"`+")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that change how the text around them is shown, or cannot be written at all."""


def printable(text: str, *, keep_lines: bool = False) -> str:
    """Return a text with control characters, lone surrogates and marks of direction written out."""
    if text.isprintable():
        return text
    return "".join(
        character
        if (keep_lines and character == "\n") or unicodedata.category(character) not in _UNPRINTABLE
        else _written_out(character)
        for character in text
    )


def _written_out(character: str) -> str:
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    number = ord(character)
    return known.get(character) or (f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}")


def shortened(text: str, longest: int) -> str:
    """Return the text's beginning, with its whole length where something is left out."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def code(text: str, longest: int = 120) -> str:
    """Return text as inline code that is safe in paragraphs, lists and tables."""
    plain = shortened(printable(text), longest).strip()
    if not plain:
        return "(no name)"
    if _PLAIN.fullmatch(plain):
        return f"`{plain}`"
    return html_code(plain, longest + 40)


def html_code(text: str, longest: int = 120) -> str:
    """Return text as inline code that is safe inside HTML such as <summary>, too."""
    plain = shortened(printable(text), longest)
    return f"<code>{_LETTERS.sub(_entity, plain)}</code>"


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"


def fenced(lines: list[str], language: str = "") -> list[str]:
    """Return lines as a block of code, with a fence that none of them can close."""
    longest = max((len(run) for line in lines for run in _FENCES.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *lines, fence]
