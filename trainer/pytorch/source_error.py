"""Errors of reading a trained model from files, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

_MOST_CHARACTERS = 300


class SourceError(Exception):
    """The checkpoint, the network or the data cannot be used; the message says which and what to do."""


def reason(error: BaseException, file: str | None = None) -> str:
    """Return an error in one line, with the line of the user's file that it comes from."""
    path = Path(file).resolve() if file else None
    text = " ".join(str(error).split())[:_MOST_CHARACTERS]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    where = f" ({file}, line {lines[-1]})" if lines else ""
    kind = type(error).__name__
    return f"{kind}: {text}{where}" if text else f"{kind}{where}"
