"""What can go wrong with a local cluster."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The local cluster cannot do what was asked; the message says why and what helps."""
