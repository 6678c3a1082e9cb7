"""Errors of a local cluster."""

from __future__ import annotations

from tools.errors import ExpectedError


class ClusterError(ExpectedError):
    """The local cluster cannot do what was asked; the message says why and what helps."""
