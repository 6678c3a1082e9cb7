"""What goes wrong while a machine is made ready."""

from __future__ import annotations

from tools.errors import ExpectedError


class ToolchainError(ExpectedError):
    """A tool could not be had; the message names what to do."""
