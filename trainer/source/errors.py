"""Errors of fetching a job's code."""

from __future__ import annotations


class SourceError(RuntimeError):
    """The code cannot be fetched, and trying again would not help."""


class TooLateError(SourceError):
    """The time is over."""


class RetryableError(SourceError):
    """The server cannot be reached or broke off; it may be there in a moment."""


class ProtocolRefusedError(SourceError):
    """The server understood the request and refuses it."""


def printable(text: str | bytes, limit: int = 1000) -> str:
    """Return text from a server or repository as one short line without control characters."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    line = "".join(character if character.isprintable() else "?" for character in decoded)
    return line if len(line) <= limit else f"{line[:limit]}..."
