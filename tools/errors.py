"""Expected failures of commands, of which only the message is printed."""

from __future__ import annotations


class ExpectedError(RuntimeError):
    """Something outside of this code failed; the message says what, and what to do about it.

    Every exception class of the tools derives from it. Input that cannot work is an `infra.errors.RefusalError`. Any
    other exception is a bug, and keeps its traceback.
    """
