"""Errors of setting up a machine."""

from __future__ import annotations

from tools.errors import ExpectedError


class ToolchainError(ExpectedError):
    """A tool could not be had; the message names what to do."""
