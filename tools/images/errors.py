"""Errors of building and loading images."""

from __future__ import annotations

from tools.errors import ExpectedError


class ImageError(ExpectedError):
    """An image is missing, incomplete, or cannot be built on this machine; the message names the fix."""
