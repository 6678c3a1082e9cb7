"""Errors of setting up a machine."""

from __future__ import annotations

from tools.errors import ExpectedError


class ToolchainError(ExpectedError):
    """A tool is not available; the message says what to do."""
