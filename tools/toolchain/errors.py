"""What goes wrong while a machine is made ready."""

from __future__ import annotations


class ToolchainError(RuntimeError):
    """A tool could not be had; the message names what to do."""
