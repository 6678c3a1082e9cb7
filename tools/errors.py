"""The failures that a command expects: it prints their message alone."""

from __future__ import annotations


class ExpectedError(RuntimeError):
    """Something outside of this code failed; the message says what, and what to do about it.

    Every exception class of the tools derives from it. Input that cannot work is an `infra.errors.RefusalError`. Any
    other exception is a bug, and keeps its traceback.
    """
